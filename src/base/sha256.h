// sha256: the digest of one buffer (FIPS 180-4). Ours, so that the plugin loads on a system without
// libcrypto.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32
#define SHA256_TEXT  (2 * SHA256_BYTES + 1) // lower-case hexadecimal and its end

void sha256(const void * data, size_t size, uint8_t digest[SHA256_BYTES]);
void sha256_print(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT]);
