# SPDX-License-Identifier: MIT
from fixtures import *  # noqa: F403
