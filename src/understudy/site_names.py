"""Which names a site may have: files and folders are named after it."""

import re

from understudy.errors import UserError

SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_site_name(name: object) -> None:
    if not isinstance(name, str) or not SITE_NAME.fullmatch(name):
        raise UserError(
            f"{str(name)[:100]!r} cannot name a site: use up to 100 letters, digits, '.', '-' and '_', "
            "beginning with a letter or digit."
        )
