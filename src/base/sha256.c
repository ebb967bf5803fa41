// sha256: see the header.
#include "sha256.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

void sha256(const void * data, size_t size, uint8_t digest[SHA256_BYTES]) {
    unsigned n = 0;
    // It has no way to fail but a libcrypto that cannot start, and no caller could go on without:
    // names would not be unique, and files not be checked.
    if (!EVP_Digest(data ? data : "", size, digest, &n, EVP_sha256(), NULL) || n != SHA256_BYTES) {
        fprintf(stderr, "ggml-hsa: libcrypto has no SHA-256\n");
        abort();
    }
}

void sha256_print(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < SHA256_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[2 * SHA256_BYTES] = '\0';
}
