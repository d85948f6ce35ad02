"""What `import understudy` offers: calls as the command has them, and results that predict and show themselves."""
