// sha256: the digest of one buffer, from OpenSSL's libcrypto, which uses the instructions that the
// machine has for it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32
#define SHA256_TEXT  (2 * SHA256_BYTES + 1) // lower-case hexadecimal and its end

void sha256(const void * data, size_t size, uint8_t digest[SHA256_BYTES]);
void sha256_print(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT]);
