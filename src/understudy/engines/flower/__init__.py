"""Clients on other machines, through Flower.

Flower carries the messages (SuperLink, SuperNode, their keys and TLS); what runs at either end is ours and is there
already: both ends take their tasks from Flower's Runtime API themselves, so the program that a run brings along is
never started anywhere, and torch is imported once and not for every message.
"""
