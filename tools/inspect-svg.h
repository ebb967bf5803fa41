// inspect-svg: what the two halves of the picture share. A tile is drawn as
//
//     +------+---------------------+
//     | lane | what the tile holds |   the lane: wires that go up and down, and to the channels
//     +------+---------------------+
//     |switch| strip               |   the strip: wires that go left and right
//     +------+---------------------+
//
// so that every wire is straight from switch to switch and crosses no text. A wire has the same
// place in all tiles of its column (lane) or row (strip).
#pragma once

#include "base/json.h"
#include "inspect.h"

#include <string.h>

enum {
    SVG_CONTENT = 324, // width of what a tile holds
    SVG_PITCH = 9,     // between wires
    SVG_LINE = 13,     // of text
    SVG_GAP = 26,      // between tiles
    SVG_MARGIN = 24,
    SVG_HEAD = 62, // of the document: title
    SVG_TITLE = 20,
    SVG_BAR = 11,
    SVG_WIDTH_LEAST = 880, // of the legend
    SVG_LINES = 96,        // text of a tile: all descriptors and channels of a memtile
    SVG_LOCALS = 16,
    SVG_NETS = 1024,
};

enum svg_line_kind { LINE_CHANNEL, LINE_BD, LINE_PLAIN };

struct svg_local { // a port that leads into the tile
    bool is_master;
    int port;
    int y;   // of its line of text
    int net; // colour
};

struct svg_tile {
    int x, y, lane, height, content_height, strip;
    struct svg_local locals[SVG_LOCALS];
    int n_locals;
    struct {
        enum svg_line_kind kind;
        int local; // LINE_CHANNEL
        char text[96];
    } lines[SVG_LINES];
    int n_lines;
    int net_of_slave[VIEW_PORTS], net_of_master[VIEW_PORTS]; // -1: none
};

struct svg {
    const struct view * v;
    int first_col, n_cols;
    int n_rows; // those above are not used at all
    struct svg_tile tiles[VIEW_COLS][VIEW_ROWS];
    // Where wires lie: [side][index], -1 = not used. Up and down in a column, left and right in a
    // row.
    int up[VIEW_COLS][8], down[VIEW_COLS][8], n_lane[VIEW_COLS];
    int east[VIEW_ROWS][8], west[VIEW_ROWS][8], n_strip[VIEW_ROWS];
    int width, height;
    int n_nets;
    bool idle[SVG_NETS]; // nothing that the files start sends words into the stream: drawn dim
};

// The head of a document: style for light and dark, ground, title.
void svg_begin(const char * title, int width, int height, struct buf * b);
void svg_escape(const char * text, struct buf * b);

// Is this event of a trace a dispatch? One that the program named says so by its category.
static inline bool svg_is_dispatch(const json_t * event, const char * name) {
    const char * category = json_string_value(json_object_get(event, "cat"));
    return !strcmp(category ? category : name, "dispatch");
}

static inline bool svg_is_idle(const struct svg * s, int net) {
    return net >= 0 && net < SVG_NETS && s->idle[net];
}

// Whether a port leads into the tile and not to a neighbour.
bool svg_port_is_local(const struct view_tile * t, enum tile_kind kind, bool is_master, int port);
// Places for the wires and colours for the streams; then lanes and strips have their sizes.
void svg_wires_plan(struct svg * s);
void svg_wires_print(const struct svg * s, struct buf * b);
