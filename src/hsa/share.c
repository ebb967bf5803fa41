// share: memory of one agent for another without a copy. Its runtime exports it as a descriptor of
// a dma-buf, and the other's maps that. A tensor has one address for all: memory that the other one
// would see elsewhere is of no use, and is refused.
#include "hsac-impl.h"

#include <string.h>
#include <unistd.h>

typedef hsa_status_t export_t(const void * ptr, size_t size, int * fd, uint64_t * offset);
typedef hsa_status_t map_t(uint32_t n, hsa_agent_t * agents, int fd, uint32_t flags, size_t * size,
                           void ** ptr, size_t * metadata_size, const void ** metadata);
typedef hsa_status_t unmap_t(void * ptr);

static bool find(const struct hsac * h, const char * name, void * function, size_t size) {
    void * address = hsac_symbol(h, name);
    memcpy(function, &address, size);
    return address != NULL;
}

enum status hsac_share(struct hsac_agent * owner, struct hsac_agent * with, void * ptr, size_t size,
                       struct error * err) {
    export_t * export_it;
    map_t * map;
    unmap_t * unmap;
    if (!find(owner->h, "hsa_amd_portable_export_dmabuf", &export_it, sizeof export_it) ||
        !find(with->h, "hsa_amd_interop_map_buffer", &map, sizeof map) ||
        !find(with->h, "hsa_amd_interop_unmap_buffer", &unmap, sizeof unmap)) {
        return error_set(err, ST_UNSUPPORTED, "a runtime that cannot share memory");
    }
    int fd = -1;
    uint64_t offset = 0;
    hsa_status_t status = export_it(ptr, size, &fd, &offset);
    if (status != HSA_STATUS_SUCCESS) {
        return error_set(err, ST_UNSUPPORTED, "%s's memory is not exported: status 0x%x",
                         owner->name, (unsigned) status);
    }
    size_t mapped_size = 0;
    void * mapped = NULL;
    status = map(1, &with->handle, fd, 0, &mapped_size, &mapped, NULL, NULL);
    close(fd); // what is mapped stays
    if (status != HSA_STATUS_SUCCESS) {
        return error_set(err, ST_UNSUPPORTED, "%s does not map %s's memory: status 0x%x",
                         with->name, owner->name, (unsigned) status);
    }
    if ((char *) mapped + offset != ptr || mapped_size < offset + size) {
        unmap(mapped);
        return error_set(err, ST_UNSUPPORTED, "%s sees %s's memory at other addresses", with->name,
                         owner->name);
    }
    return ST_OK;
}

void hsac_unshare(struct hsac_agent * with, void * ptr) {
    unmap_t * unmap;
    if (find(with->h, "hsa_amd_interop_unmap_buffer", &unmap, sizeof unmap)) {
        unmap(ptr);
    }
}
