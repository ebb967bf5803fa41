// A program of somebody else that uses librocm-kernels: it asks for a source and finds a kernel in
// it.
#include <rocm-kernels.h>
#include <string.h>

int main(void) {
    const char * text = rocm_modules_source(ROCM_SOURCE_BINARY);
    return text && strstr(text, "binary") ? 0 : 1;
}
