"""Clients on other machines, through Flower.

Flower carries the messages (SuperLink, SuperNode, their keys and TLS); what runs at either end is ours and already
running: both ends fetch their tasks from Flower's Runtime API themselves, so the program that a run carries is never
started anywhere, and torch is imported once, not for every message.
"""
