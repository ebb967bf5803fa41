// png: small grey images as PNG in base64, for pages that carry their pictures inside. The pixels
// are stored and not compressed: at a few hundred bytes an image, a compressor would cost more than
// it saves.
#include "report.h"

#include <string.h>

uint32_t png_crc(const uint8_t * data, size_t size) {
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
    }
    return ~crc;
}

uint32_t png_adler(const uint8_t * data, size_t size) {
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < size; i++) {
        a = (a + data[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

void base64(struct buf * out, const uint8_t * data, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t v = (uint32_t) data[i] << 16 | (left > 1 ? (uint32_t) data[i + 1] << 8 : 0) |
                     (left > 2 ? data[i + 2] : 0);
        char text[4] = {digits[v >> 18], digits[v >> 12 & 63], left > 1 ? digits[v >> 6 & 63] : '=',
                        left > 2 ? digits[v & 63] : '='};
        buf_append(out, text, sizeof text);
    }
}

static void append_big(struct buf * b, uint32_t v) {
    const uint8_t bytes[4] = {(uint8_t) (v >> 24), (uint8_t) (v >> 16), (uint8_t) (v >> 8),
                              (uint8_t) v};
    buf_append(b, bytes, sizeof bytes);
}

static void append_chunk(struct buf * png, const char * type, const struct buf * data) {
    append_big(png, (uint32_t) data->size);
    size_t start = png->size;
    buf_append(png, type, 4);
    buf_append(png, data->data, data->size);
    if (!png->failed) {
        append_big(png, png_crc(png->data + start, png->size - start));
    }
}

void png_base64(struct buf * out, const uint8_t * pixels, int width, int height) {
    struct buf png = {0}, raw = {0}, header = {0}, data = {0}, none = {0};
    for (int y = 0; y < height; y++) {
        const uint8_t no_filter = 0;
        buf_append(&raw, &no_filter, 1);
        for (int x = 0; x < width; x += 2) {
            const uint8_t * p = pixels + y * width + x;
            uint8_t left = (uint8_t) (15 - p[0] / 17),
                    right = x + 1 < width ? (uint8_t) (15 - p[1] / 17) : 0;
            uint8_t both = (uint8_t) (left << 4 | right);
            buf_append(&raw, &both, 1);
        }
    }
    append_big(&header, (uint32_t) width);
    append_big(&header, (uint32_t) height);
    buf_append(&header, (const uint8_t[]){4, 0, 0, 0, 0}, 5); // 4 bits of grey

    // One stored block of deflate holds 65535 bytes, more than any image here has.
    uint16_t size = (uint16_t) raw.size;
    const uint8_t block[] = {0x78,
                             0x01,
                             0x01,
                             (uint8_t) size,
                             (uint8_t) (size >> 8),
                             (uint8_t) ~size,
                             (uint8_t) (~size >> 8)};
    buf_append(&data, block, sizeof block);
    buf_append(&data, raw.data, raw.size);
    append_big(&data, raw.failed ? 0 : png_adler(raw.data, raw.size));

    buf_append(&png, "\x89PNG\r\n\x1a\n", 8);
    append_chunk(&png, "IHDR", &header);
    append_chunk(&png, "IDAT", &data);
    append_chunk(&png, "IEND", &none);
    if (png.failed || raw.failed || header.failed || data.failed) {
        out->failed = true;
    } else {
        base64(out, png.data, png.size);
    }
    buf_free(&png);
    buf_free(&raw);
    buf_free(&header);
    buf_free(&data);
}
