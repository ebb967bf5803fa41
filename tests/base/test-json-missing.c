// test-json-missing: json and json-late built to look for a library that is not there, as on a
// system without jansson: reading and recording say so and how to mend it, what is written fails,
// and nothing crashes.
#include "base/cmocka-all.h"
#include "base/json.h"

static void reading(void ** state) {
    (void) state;
    json_t * value = (json_t *) 1;
    struct error err = {0};
    assert_int_equal(json_read("{}", 2, &value, &err), ST_NOT_FOUND);
    assert_null(value);
    assert_non_null(strstr(err.text, "libjansson-of-nobody.so"));
    assert_non_null(strstr(err.text, "install libjansson4"));
    assert_int_equal(json_read("{}", 2, &value, NULL), ST_NOT_FOUND);
}

static void writing(void ** state) {
    (void) state;
    json_t *object = json_object(), *array = json_array();
    struct buf b = {0};
    json_put(&object, "key", json_string("value"));
    json_append(&array, json_pack("{s:i}", "n", 1));
    assert_null(json_sprintf("%d", 1));
    json_print(object, 0, &b);
    assert_true(b.failed);
    assert_non_null(strstr(json_trouble(), "install libjansson4"));
    assert_int_equal(json_array_size(array), 0);
    assert_null(json_object_get(object, "key"));
    json_decref(object);
    json_decref(array);
    buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reading), cmocka_unit_test(writing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
