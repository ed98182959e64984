#!/usr/bin/env python3
"""Prints what an HTTPS server answers; verifies it by the given authority.

usage: https_get.py CA URL
"""

import ssl
import sys
import urllib.request

authority, url = sys.argv[1:]
with urllib.request.urlopen(url, timeout=20, context=ssl.create_default_context(cafile=authority)) as answer:
    print(answer.read().decode())
