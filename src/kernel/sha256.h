// sha256: FIPS 180-4, for names that must not collide.
#pragma once

#include "base/base.h"

#define SHA256_BYTES 32

void sha256(const void * data, size_t size, uint8_t digest[SHA256_BYTES]);
