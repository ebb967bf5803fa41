// time: what HSA calls the time. Every runtime has the same two questions, and how fast the answer
// runs is one of them. On our emulated runtime with GGML_HSA_EMU_TIME=modelled it is the time of
// the model.
#include "hsac-impl.h"

uint64_t hsac_time_ns(const struct hsac * h) {
    uint64_t ticks = 0, frequency = 0;
    if (hsac_forked(h) ||
        h->api.hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency) !=
            HSA_STATUS_SUCCESS ||
        frequency == 0 ||
        h->api.hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &ticks) != HSA_STATUS_SUCCESS) {
        return 0;
    }
    return ticks / frequency * 1000000000u + ticks % frequency * 1000000000u / frequency;
}
