// inspect-svg-wires: the streams of the picture. A stream begins at a port that leads out of a tile
// and is followed through switches and neighbours; all that it reaches has its colour. Packets of
// several streams that share a wire have the colour of the first.
#include "inspect-svg.h"

#include <stdlib.h>
#include <string.h>

// Told apart on white and on black.
static const char * const net_colours[] = {"#3b82f6", "#e8590c", "#2f9e44", "#c2255c",
                                           "#9c6ade", "#0b9eb3", "#b8860b", "#f06595",
                                           "#5c7cfa", "#74a12e", "#e03131", "#12b886"};
enum { COLOURS = sizeof net_colours / sizeof net_colours[0] };

static const struct side {
    const char *group, *enters;
    int cols, rows;
} sides[] = {{"N", "S", 0, 1}, {"S", "N", 0, -1}, {"E", "W", 1, 0}, {"W", "E", -1, 0}};
enum { SIDES = sizeof sides / sizeof sides[0] };

static const struct side * side_of(const char * group) {
    for (int i = 0; i < SIDES; i++) {
        if (!strcmp(group, sides[i].group)) {
            return &sides[i];
        }
    }
    return NULL;
}

bool svg_port_is_local(const struct view_tile * t, enum tile_kind kind, bool is_master, int port) {
    (void) t;
    struct port p;
    return port_find(kind, is_master, port, &p) &&
           (!side_of(p.group) || (kind == TILE_SHIM && p.group[0] == 'S'));
}

static bool is_on(const struct view_tile * t, bool is_master, int port) {
    return (is_master ? t->master : t->slave)[port] >> 31;
}

// ---- streams ----

static void follow(struct svg * s, int col, int row, int slave, int net, int depth) {
    const struct view_tile * t = &s->v->tiles[col][row];
    struct svg_tile * at = &s->tiles[col][row];
    if (at->net_of_slave[slave] >= 0 || depth > 64) {
        return;
    }
    at->net_of_slave[slave] = net;
    for (int m = 0; m < VIEW_PORTS; m++) {
        bool packets;
        struct port p;
        if (!view_joined(t, slave, m, &packets) || at->net_of_master[m] >= 0) {
            continue;
        }
        at->net_of_master[m] = net;
        const struct side * side = NULL;
        if (port_find(tile_kind_of(row), true, m, &p)) {
            side = side_of(p.group);
        }
        int c = col + (side ? side->cols : 0), r = row + (side ? side->rows : 0);
        if (!side || c < 0 || c >= VIEW_COLS || r < 0 || r >= VIEW_ROWS) {
            continue;
        }
        int next = port_index(tile_kind_of(r), false, side->enters, p.index);
        if (next >= 0) {
            follow(s, c, r, next, net, depth + 1);
        }
    }
}

// Does any master lead on what comes in here?
static bool leads_on(const struct view_tile * t, int slave) {
    bool packets;
    for (int m = 0; m < VIEW_PORTS; m++) {
        if (view_joined(t, slave, m, &packets)) {
            return true;
        }
    }
    return false;
}

static void find_nets(struct svg * s) {
    // From ports inside tiles first; what is left is fed from beyond the picture.
    for (int pass = 0; pass < 2; pass++) {
        for (int col = 0; col < VIEW_COLS; col++) {
            for (int row = 0; row < VIEW_ROWS; row++) {
                const struct view_tile * t = &s->v->tiles[col][row];
                for (int p = 0; p < VIEW_PORTS; p++) {
                    if (is_on(t, false, p) && s->tiles[col][row].net_of_slave[p] < 0 &&
                        leads_on(t, p) &&
                        (pass || svg_port_is_local(t, tile_kind_of(row), false, p))) {
                        follow(s, col, row, p, s->n_nets++, 0);
                    }
                }
            }
        }
    }
}

// ---- places ----

static int * place_of(struct svg * s, int col, int row, const struct port * p) {
    int * table = p->group[0] == 'N'   ? s->up[col]
                  : p->group[0] == 'S' ? s->down[col]
                  : p->group[0] == 'E' ? s->east[row]
                                       : s->west[row];
    return &table[p->index & 7];
}

static void give_places(struct svg * s, int col, int row) {
    const struct view_tile * t = &s->v->tiles[col][row];
    for (int m = 0; m < VIEW_PORTS; m++) {
        struct port p;
        if (!is_on(t, true, m) || !port_find(tile_kind_of(row), true, m, &p) || !side_of(p.group) ||
            (row == 0 && p.group[0] == 'S')) {
            continue;
        }
        int * place = place_of(s, col, row, &p);
        if (*place < 0) {
            *place = side_of(p.group)->rows ? s->n_lane[col]++ : s->n_strip[row]++;
        }
    }
}

static void find_locals(struct svg * s, int col, int row) {
    const struct view_tile * t = &s->v->tiles[col][row];
    struct svg_tile * at = &s->tiles[col][row];
    for (int k = 0; k < 2 * VIEW_PORTS; k++) {
        bool is_master = k < VIEW_PORTS;
        int port = k % VIEW_PORTS;
        int net = is_master ? at->net_of_master[port] : at->net_of_slave[port];
        if (net >= 0 && is_on(t, is_master, port) &&
            svg_port_is_local(t, tile_kind_of(row), is_master, port) && at->n_locals < SVG_LOCALS) {
            at->locals[at->n_locals++] = (struct svg_local){is_master, port, 0, net};
        }
    }
}

void svg_wires_plan(struct svg * s) {
    memset(s->up, -1, sizeof s->up);
    memset(s->down, -1, sizeof s->down);
    memset(s->east, -1, sizeof s->east);
    memset(s->west, -1, sizeof s->west);
    for (int col = 0; col < VIEW_COLS; col++) {
        for (int row = 0; row < VIEW_ROWS; row++) {
            struct svg_tile * at = &s->tiles[col][row];
            memset(at->net_of_slave, -1, sizeof at->net_of_slave);
            memset(at->net_of_master, -1, sizeof at->net_of_master);
        }
    }
    find_nets(s);
    for (int col = 0; col < VIEW_COLS; col++) {
        int most = 0;
        for (int row = 0; row < VIEW_ROWS; row++) {
            give_places(s, col, row);
            find_locals(s, col, row);
            int n = s->tiles[col][row].n_locals;
            most = n > most ? n : most;
        }
        for (int row = 0; row < VIEW_ROWS; row++) {
            s->tiles[col][row].lane = SVG_PITCH * (s->n_lane[col] + most + 2);
        }
    }
    for (int row = 0; row < VIEW_ROWS; row++) {
        int strip = SVG_PITCH * (s->n_strip[row] + 2);
        for (int col = 0; col < VIEW_COLS; col++) {
            s->tiles[col][row].strip = strip < 44 ? 44 : strip;
        }
    }
}

// ---- drawing ----

struct point {
    int x, y, dx, dy; // on the switch's edge, and the way out of it
};

static int local_x(const struct svg * s, int col, int row, int local) {
    return s->tiles[col][row].x + SVG_PITCH * (s->n_lane[col] + local) + SVG_PITCH * 3 / 2;
}

static bool edge_of(const struct svg * s, int col, int row, bool is_master, int port,
                    struct point * out) {
    const struct svg_tile * at = &s->tiles[col][row];
    int top = at->y + at->content_height, bottom = top + at->strip, left = at->x,
        right = at->x + at->lane;
    for (int i = 0; i < at->n_locals; i++) {
        if (at->locals[i].is_master == is_master && at->locals[i].port == port) {
            *out = (struct point){local_x(s, col, row, i), top, 0, -1};
            return true;
        }
    }
    struct port p;
    if (!port_find(tile_kind_of(row), is_master, port, &p) || !side_of(p.group)) {
        return false;
    }
    // A wire's place hangs on the way that its words go.
    const struct side * side = side_of(p.group);
    const char * way = is_master ? side->group : side->enters;
    int row_of = row, col_of = col;
    struct port by_way = {way, p.index, p.count};
    int place = *place_of((struct svg *) s, col_of, row_of, &by_way);
    if (place < 0) {
        return false;
    }
    int x = left + SVG_PITCH * place + SVG_PITCH * 3 / 2, y = top + SVG_PITCH * (place + 1) + 4;
    switch (p.group[0]) {
    case 'N':
        *out = (struct point){x, top, 0, -1};
        break;
    case 'S':
        *out = (struct point){x, bottom, 0, 1};
        break;
    case 'E':
        *out = (struct point){right, y, 1, 0};
        break;
    default:
        *out = (struct point){left, y, -1, 0};
        break;
    }
    return true;
}

static const char * colour(int net) {
    return net_colours[net % COLOURS];
}

static const char * dim(const struct svg * s, int net) {
    return svg_is_idle(s, net) ? " e" : "";
}

static void draw_switch(const struct svg * s, int col, int row, struct buf * b) {
    const struct view_tile * t = &s->v->tiles[col][row];
    const struct svg_tile * at = &s->tiles[col][row];
    for (int m = 0; m < VIEW_PORTS; m++) {
        for (int p = 0; p < VIEW_PORTS; p++) {
            bool packets;
            struct point from, to;
            if (!view_joined(t, p, m, &packets) || at->net_of_slave[p] < 0 ||
                !edge_of(s, col, row, false, p, &from) || !edge_of(s, col, row, true, m, &to)) {
                continue;
            }
            // Back to the same side: the wider, the deeper, so that such ways lie beside another.
            int wide = abs(from.x - to.x) / 2, deep = at->strip * 5 / 4,
                bend = from.dy != to.dy || from.dx != to.dx ? 14
                       : wide < deep                        ? 6 + wide
                                                            : deep;
            buf_printf(b, "<path class=\"w%s%s\" stroke=\"%s\" d=\"M%d %dC%d %d %d %d %d %d\"/>\n",
                       packets ? " p" : "", dim(s, at->net_of_slave[p]),
                       colour(at->net_of_slave[p]), from.x, from.y, from.x - bend * from.dx,
                       from.y - bend * from.dy, to.x - bend * to.dx, to.y - bend * to.dy, to.x,
                       to.y);
        }
    }
}

static void draw_wires(const struct svg * s, int col, int row, struct buf * b) {
    const struct view_tile * t = &s->v->tiles[col][row];
    const struct svg_tile * at = &s->tiles[col][row];
    for (int m = 0; m < VIEW_PORTS; m++) {
        struct port p;
        if (at->net_of_master[m] < 0 || !port_find(tile_kind_of(row), true, m, &p) ||
            svg_port_is_local(t, tile_kind_of(row), true, m)) {
            continue;
        }
        const struct side * side = side_of(p.group);
        int c = col + side->cols, r = row + side->rows;
        if (c < s->first_col || c >= s->first_col + s->n_cols || r < 0 || r >= s->n_rows) {
            continue;
        }
        int next = port_index(tile_kind_of(r), false, side->enters, p.index);
        struct point from, to;
        if (next < 0 || !edge_of(s, col, row, true, m, &from) ||
            !edge_of(s, c, r, false, next, &to)) {
            continue;
        }
        buf_printf(b,
                   "<path class=\"w%s%s\" stroke=\"%s\" marker-end=\"url(#a%d)\" "
                   "d=\"M%d %dL%d %d\"/>\n",
                   t->master[m] >> 30 & 1 ? " p" : "", dim(s, at->net_of_master[m]),
                   colour(at->net_of_master[m]), at->net_of_master[m] % COLOURS, from.x, from.y,
                   to.x, to.y);
    }
}

static void draw_locals(const struct svg * s, int col, int row, struct buf * b) {
    const struct view_tile * t = &s->v->tiles[col][row];
    const struct svg_tile * at = &s->tiles[col][row];
    for (int i = 0; i < at->n_locals; i++) {
        const struct svg_local * l = &at->locals[i];
        int x = local_x(s, col, row, i), top = at->y + at->content_height, edge = at->x + at->lane;
        bool packets = (l->is_master ? t->master : t->slave)[l->port] >> 30 & 1;
        const char * class = packets ? " p" : "";
        if (l->is_master) {
            buf_printf(b,
                       "<path class=\"w%s%s\" stroke=\"%s\" marker-end=\"url(#a%d)\" "
                       "d=\"M%d %dV%dH%d\"/>\n",
                       class, dim(s, l->net), colour(l->net), l->net % COLOURS, x, top, l->y, edge);
        } else {
            buf_printf(b, "<path class=\"w%s%s\" stroke=\"%s\" d=\"M%d %dH%dV%d\"/>\n", class,
                       dim(s, l->net), colour(l->net), edge, l->y, x, top);
        }
    }
}

void svg_wires_print(const struct svg * s, struct buf * b) {
    buf_printf(b, "<defs>\n");
    for (int i = 0; i < COLOURS; i++) {
        buf_printf(b,
                   "<marker id=\"a%d\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" "
                   "markerWidth=\"5\" markerHeight=\"5\" orient=\"auto\">"
                   "<path d=\"M0 0L6 3L0 6z\" fill=\"%s\"/></marker>\n",
                   i, net_colours[i]);
    }
    buf_printf(b, "</defs>\n");
    for (int col = s->first_col; col < s->first_col + s->n_cols; col++) {
        for (int row = 0; row < s->n_rows; row++) {
            draw_switch(s, col, row, b);
            draw_wires(s, col, row, b);
            draw_locals(s, col, row, b);
        }
    }
}
