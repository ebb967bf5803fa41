// spread: the work of a column, dealt chunk by chunk to its cores through the memtile.
//
//     shim MM2S 0 --a--> S2MM 0  memtile  MM2S j  --> S2MM 0  core j    a chunk of a, then b's
//     shim MM2S 1 --b--> S2MM 1  memtile  (MM2S 5 --> S2MM 1  core 0    b, where one core works)
//     shim S2MM 0 <-out- MM2S 4  memtile  S2MM 2+j <-- MM2S 0  core j
//
// The cores of a column may also have different programs (SPREAD_MIXED). Then one of them works
// alone, all that it wants comes over its one channel, and MM2S 5 leads to the second channel of
// the two upper cores, for what both are to get.
//
// Or they are alike and MM2S 5 leads to the shim (SPREAD_WAYS): a column then has two ways through
// it, each with a stream in and one out, which two of its cores share; what has no b goes over
// both. A lone core's b comes behind a.
//
// A family says how long chunks are, how many there are and how they lie in a core; chunk after
// chunk goes to core after core, and results come back in the same order. Every core has two
// buffers for each of its streams in the memtile, as it has in its own memory: descriptors go from
// one to the other by their iteration, and locks count the buffers. All is written for each run;
// when it is over, queues are empty and locks are as before.
//
// Chunks that do not come out even: the last round goes to the last cores, so that it is the tail
// of the same chain of descriptors, and a shorter chunk behind it to the core before those.
//
// Chunks may also be longer than a core's buffers: the memtile then holds each, and gives it to its
// core part by part, and all of it again for every pass that the core makes over it.
#pragma once

#include "flow.h"

#include "aie/target/times.h"

enum { SPREAD_A, SPREAD_B, SPREAD_OUT, SPREAD_STREAMS };
enum { SPREAD_CORES = 4, SPREAD_PAIR = 2 };
// Locks of the memtile, without and with those of chunks that it holds.
enum { SPREAD_PLAIN_LOCKS = 6 * SPREAD_CORES + 1, SPREAD_LOCKS = 10 * SPREAD_CORES + 1 };
enum { SPREAD_MOST_WORDS = 2048 }; // of a chunk

// The columns that work, and the cores of each. To program one takes the instruction stream some
// time; another one pays where it saves more.
struct spread_crew {
    int columns, ways, cores; // the cores of each way
    uint64_t lead;   // words that a column does while the next is told: what it may have more
    bool mixed;      // a core among others with other programs, else one of four that are alike
    uint64_t cycles; // about, without what host memory takes longer
};
struct spread_work {
    const struct aie_times * times;  // of the chip
    uint64_t words;                  // that pass the shims
    uint64_t all_words;              // that pass a lone core's one channel
    uint64_t words_a_cycle;          // of a stream
    uint64_t shared_words;           // that come to cores over one channel each; 0: b has its own
    uint64_t cycles;                 // of cores
    uint64_t telling;                // cycles for telling a core,
    uint64_t most_words;             // that a lone core can be told of at once; 0: any number
    uint64_t way_telling;            // and for what else a way is told; 0: as much as most take
    uint64_t lone_telling;           // more of that, where it is not told with a second one
    uint64_t shares;                 // what can be dealt out; 0: any number
    int least_columns, most_columns; // powers of two times the least are tried
    int most_cores;                  // of a column
    int most_ways;                   // 0 is 1
    bool leads;                      // who is told first has more to do: telling takes half as long
    bool may_mix;                    // there is a mixed PDI with the program
    int mixed_columns;               // of that, which have it; 0: all
};
struct spread_crew spread_crew_for(const struct spread_work * w);

// What a stream has in a core: ping, pong so many bytes behind it, the locks of both.
struct spread_buffer {
    uint32_t address, other;
    int empty, full;
};

// A word that comes over b's channel before all else and goes to every core.
struct spread_word {
    bool there;
    uint32_t address;     // in the core
    int acquire, release; // its locks; -1: none
};

// Chunks that the memtile holds. The results of the last pass come back as they were sent.
struct spread_held {
    uint32_t parts, passes;        // 0: they are not held
    uint32_t part[SPREAD_STREAMS]; // words of one
};
enum { SPREAD_HELD_RUNS = 63 }; // parts times passes, at most: what a lock counts

struct spread {
    const struct spread_buffer * buffers; // of the streams
    int cores;                            // that may take part
    int first;                            // of them in its column
    bool mixed;                           // one core among others
    bool ways;                            // MM2S 5 leads to the shim
    int way;                              // over its channels 0, or 1
    struct spread_stream {
        uint32_t full, chunk;      // chunks of full length, and their words
        uint32_t last;             // words of a shorter one behind them; 0: there is none
        struct flow_layout layout; // of a chunk in the core
    } streams[SPREAD_STREAMS];     // as many chunks of each; of one core alone, any number
    struct spread_word word;
    struct spread_held held;
};

// How many cores' chunks the memtile can hold, with or without a word: 4, 2, 1 or none.
int spread_holds(const struct spread_held * h, bool word);

// Routes of a column; the cores are the caller's, and so are locks of the memtile behind the first
// SPREAD_LOCKS, of which spread_locks has the first values.
enum spread_kind { SPREAD_ALIKE, SPREAD_MIXED, SPREAD_WAYS };
void spread_column(struct array * a, int col, enum spread_kind kind);
void spread_locks(uint8_t locks[SPREAD_LOCKS]);

// How many chunks of a a core gets, and whether the shorter one is among them, as its last.
uint32_t spread_chunks(const struct spread * s, int core);
bool spread_has_last(const struct spread * s, int core);
struct flow_tile spread_core(const struct spread * s, int col, int core);

// A way's first core, of so many. A lone one of the second way is the last of the column: its
// channels follow on the first way's.
int spread_first(int way, int cores);

// Descriptors and tasks of the memtile and of the cores that get something; of several ways at
// once.
void spread_start(const struct flow * f, int col, const struct spread * s);
void spread_start_ways(const struct flow * f, int col, const struct spread * ways, int n);
// Behind the last wait, where chunks were held: locks as they were before.
void spread_end(const struct flow * f, int col, const struct spread * s);

// So many words from the shim to the shim, by the memtile and no core: the first core's buffers for
// a are filled and sent out.
void spread_pass(const struct flow * f, int col, uint32_t words);
