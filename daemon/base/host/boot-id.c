/* SPDX-License-Identifier: MIT */

#include "base/host/boot-id.h"

#include "base/host/procfs.h"
#include "base/util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

char *boot_id_read(void)
{
	char *id;
	int r = read_text_file(AT_FDCWD, OWN_PROCFS "/sys/kernel/random/boot_id", FILE_MAX_SYSFS, &id);

	return r == 0 ? id : r == -ENOMEM ? NULL : strdup("");
}
