"""Audits of claims: experiments on neighbouring data, and whether they contradict the claimed curve."""
