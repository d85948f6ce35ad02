"""Values into HTML: the report in one file, and what all pages share. Nothing here runs or measures."""
