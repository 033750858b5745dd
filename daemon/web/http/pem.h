/* SPDX-License-Identifier: MIT */
#pragma once

#include <gnutls/gnutls.h>
#include <stdint.h>
#include <string.h>

/* A text, such as PEM, as GnuTLS takes it. GnuTLS only reads the data, although the member is not const. */
static inline gnutls_datum_t pem_datum(const char *text)
{
	return (gnutls_datum_t){ .data = (unsigned char *)(uintptr_t)text, .size = (unsigned)strlen(text) };
}
