# Targets ggml::ggml and ggml::ggml-base, from the first of
#   -DGGML_SOURCE_DIR=<llama.cpp or ggml tree>   built here, once, into <build>/ggml
#   -Dggml_DIR=<prefix>/lib/cmake/ggml           an installed ggml
#   .deps/prefix                                 what `make` sets up
#   the system                                   e.g. libggml-dev
# GGML_BIN_DIR is where its backends and test-backend-ops are, GGML_TREE a source tree or empty.
set(GGML_SOURCE_DIR "" CACHE PATH "build this llama.cpp or ggml source tree instead of using an installed ggml")

set(ggml_hint ${GGML_HSA_DEPS_DIR}/prefix)
set(GGML_TREE "")
if(GGML_SOURCE_DIR)
    execute_process(COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/ggml/get.sh ${CMAKE_BINARY_DIR}/ggml ${GGML_SOURCE_DIR}
                    RESULT_VARIABLE failed)
    if(failed)
        message(FATAL_ERROR "ggml in ${GGML_SOURCE_DIR} did not build")
    endif()
    set(ggml_hint ${CMAKE_BINARY_DIR}/ggml/prefix)
    set(ggml_DIR ${ggml_hint}/lib/cmake/ggml)
    set(GGML_TREE ${GGML_SOURCE_DIR})
elseif(EXISTS ${GGML_HSA_DEPS_DIR}/llama.cpp AND
       (NOT ggml_DIR OR ggml_DIR STREQUAL ${ggml_hint}/lib/cmake/ggml))
    set(GGML_TREE ${GGML_HSA_DEPS_DIR}/llama.cpp)
endif()
if(GGML_TREE AND EXISTS ${GGML_TREE}/ggml/src)
    set(GGML_TREE ${GGML_TREE}/ggml)
endif()

find_package(ggml CONFIG QUIET HINTS ${ggml_hint})
if(NOT ggml_FOUND)
    message(FATAL_ERROR "ggml was not found. Run `make setup` once, or pass -DGGML_SOURCE_DIR=<tree>, "
                        "-Dggml_DIR=<prefix>/lib/cmake/ggml, or -DGGML_HSA=OFF to build without the plugin.")
endif()
get_filename_component(ggml_prefix ${ggml_DIR}/../../.. ABSOLUTE)
find_path(GGML_BIN_DIR NAMES libggml-cpu.so test-backend-ops
          PATHS ${ggml_prefix}/bin /usr/libexec/${CMAKE_LIBRARY_ARCHITECTURE}/ggml NO_DEFAULT_PATH)
message(STATUS "ggml: ${ggml_prefix} (backends in ${GGML_BIN_DIR})")
