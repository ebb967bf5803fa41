# What `cmake --install` puts where, under the prefix:
#
#   lib/libggml-hsa.so                 the plugin; GGML_BACKEND_PATH=<it> makes ggml programs load it
#   lib/ggml-hsa/libhsa-npu.so         the emulated runtime, out of the way of a real one
#   lib/ggml-hsa/emu                   the same under the name that programs ask for, for LD_LIBRARY_PATH
#   lib/ggml-hsa/ggml-hsa-model        what `ggml-hsa model` runs
#   lib/ggml-hsa/ggml-hsa-validate-ops what `ggml-hsa validate` compares ops with
#   lib/ggml-hsa/ggml                  the ggml that it was built with, where nobody installed that one
#   lib/cmake/ggml-hsa, lib/pkgconfig  for programs that link: ggml-hsa::ggml-hsa, ggml-hsa.pc
#   lib/librocm-kernels.so             GPU kernels that are compiled once and kept
#   bin/ggml-hsa, bin/ggml-hsa-gen-kernels, bin/rocm-kernels
#   include/ggml-hsa.h, hsa-emu.h, rocm-kernels.h, rocm-kernels-args.h
#   share/ggml-hsa                     examples, env_setup.sh and requirements.txt
#   share/doc/ggml-hsa                 the documents, laid out as in the source, so that their links lead somewhere
#   share/man/man1, share/bash-completion/completions, share/zsh/site-functions
#
# Nothing of it leads back into the source tree, the build or `make setup`'s directory.
#
# -DGGML_HSA_PLUGIN_DIR=<lib/ggml/backends0> puts the plugin where an installed ggml looks for backends. ggml
# asks there for a fixed list of names, and ours is none of them: the plugin is there a second time, by a link, as
# a variant of the one backend that no Linux has.
include(CMakePackageConfigHelpers)

install(TARGETS hsa-npu LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ggml-hsa)
# install_link(target name): a link of that name, relative to the prefix
function(install_link target name)
    install(CODE "
        set(link \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${name}\")
        get_filename_component(dir \"\${link}\" DIRECTORY)
        file(MAKE_DIRECTORY \"\${dir}\")
        execute_process(COMMAND \"${CMAKE_COMMAND}\" -E create_symlink \"${target}\" \"\${link}\")
        list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${CMAKE_INSTALL_PREFIX}/${name}\")")
endfunction()
install_link(../libhsa-npu.so ${CMAKE_INSTALL_LIBDIR}/ggml-hsa/emu/libhsa-runtime64.so.1)
install(TARGETS ggml-hsa-tool ggml-hsa-gen-kernels rocm-kernels-tool
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS rocm-kernels EXPORT rocm-kernels-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# It needs nothing of ours, so that its targets are its package.
install(EXPORT rocm-kernels-targets NAMESPACE rocm-kernels:: FILE rocm-kernels-config.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rocm-kernels)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/rocm-kernels-config-version.cmake
    COMPATIBILITY SameMinorVersion)
# Paths in it are relative to the file, so that the tree can be moved.
file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(rocm-kernels.pc.in ${CMAKE_CURRENT_BINARY_DIR}/rocm-kernels.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rocm-kernels-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rocm-kernels)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rocm-kernels.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES src/hip/kernels/kernels.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        RENAME rocm-kernels-args.h)
install(FILES include/hsa-emu.h include/rocm-kernels.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES env_setup.sh requirements.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/ggml-hsa)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/ggml-hsa/examples
        FILES_MATCHING PATTERN "*.json" PATTERN "*.c" PATTERN "mnist" EXCLUDE)
install(FILES examples/mnist/README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/ggml-hsa/examples/mnist)
install_link(../../ggml-hsa/examples ${CMAKE_INSTALL_DOCDIR}/examples)
install_link(../doc/ggml-hsa/docs ${CMAKE_INSTALL_DATADIR}/ggml-hsa/docs) # what a link of the examples leads to
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)

install(FILES man/ggml-hsa.1 man/ggml-hsa-gen-kernels.1 man/rocm-kernels.1
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
foreach(tool ggml-hsa ggml-hsa-gen-kernels rocm-kernels) # bash looks for a file of the program's name
    install(FILES completions/ggml-hsa.bash RENAME ${tool}
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endforeach()
install(FILES completions/_ggml-hsa DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

if(NOT TARGET ggml-hsa)
    return()
endif()

# ---- the plugin, and how programs link it ----

# A plugin shares ggml-base with the program that loads it, so that one inside the plugin would be a second one.
get_target_property(ggml_base ggml::ggml-base IMPORTED_LOCATION)
if(ggml_base MATCHES "\\.a$")
    message(FATAL_ERROR "${ggml_base} is a static ggml, and a plugin needs the one that its program has: "
                        "build ggml with -DBUILD_SHARED_LIBS=ON")
endif()

# Whose ggml? One that nobody installed, from `make setup` or a source tree, is installed with the plugin in a
# directory of its own; to an installed one we only point. A program that has a ggml keeps its own in any case.
get_filename_component(ggml_libdir ${ggml_DIR}/../.. ABSOLUTE)
get_filename_component(ggml_real ${ggml_DIR} REALPATH)
get_filename_component(deps_real ${GGML_HSA_DEPS_DIR} REALPATH)
set(ggml_is_ours OFF)
foreach(dir ${deps_real} ${CMAKE_BINARY_DIR})
    string(FIND "${ggml_real}/" "${dir}/" at)
    if(at EQUAL 0)
        set(ggml_is_ours ON)
    endif()
endforeach()
option(GGML_HSA_INSTALL_GGML "install the ggml that we were built with beside the plugin" ${ggml_is_ours})

set(GGML_HSA_PLUGIN_DIR ${CMAKE_INSTALL_LIBDIR} CACHE STRING "where the plugin is installed, below the prefix")
set(bundle ${CMAKE_INSTALL_LIBDIR}/ggml-hsa/ggml)
file(RELATIVE_PATH to_lib /${GGML_HSA_PLUGIN_DIR} /${CMAKE_INSTALL_LIBDIR}/ggml-hsa/ggml/lib)
set(rpath "$ORIGIN")
if(GGML_HSA_INSTALL_GGML)
    list(APPEND rpath "$ORIGIN/${to_lib}")
    install(DIRECTORY ${ggml_libdir}/ DESTINATION ${bundle}/lib FILES_MATCHING PATTERN "libggml*.so*" PATTERN cmake EXCLUDE)
    install(FILES ${GGML_BIN_DIR}/libggml-cpu.so DESTINATION ${bundle}/bin)
    install(DIRECTORY ${GGML_INCLUDE_DIR}/ DESTINATION ${bundle}/include FILES_MATCHING PATTERN "gg*.h")
    find_file(GGML_LICENSE LICENSE PATHS "${GGML_TREE}" "${GGML_TREE}/.." NO_DEFAULT_PATH)
    mark_as_advanced(GGML_LICENSE)
    if(GGML_LICENSE)
        install(FILES ${GGML_LICENSE} DESTINATION ${bundle})
    endif()
    # Without the places where it was built.
    file(READ ${ggml_DIR}/ggml-config.cmake config)
    string(REGEX REPLACE "set\\((GGML|LLAMA)_DIR [^\n]*\n" "" config "${config}")
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/ggml/ggml-config.cmake "${config}")
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ggml/ggml-config.cmake ${ggml_DIR}/ggml-config-version.cmake
            DESTINATION ${bundle}/lib/cmake/ggml)
elseif(NOT ggml_is_ours AND NOT ggml_libdir IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    list(APPEND rpath ${ggml_libdir}) # the loader does not look there
endif()
set_target_properties(ggml-hsa PROPERTIES INSTALL_RPATH "${rpath}")
install(TARGETS ggml-hsa EXPORT ggml-hsa-targets LIBRARY DESTINATION ${GGML_HSA_PLUGIN_DIR})
if(NOT GGML_HSA_PLUGIN_DIR STREQUAL CMAKE_INSTALL_LIBDIR)
    install_link(libggml-hsa.so ${GGML_HSA_PLUGIN_DIR}/libggml-metal-hsa.so)
endif()
# `ggml-hsa model` runs it: it needs the ggml that the plugin needs.
set(model_rpath "")
if(GGML_HSA_INSTALL_GGML)
    set(model_rpath "$ORIGIN/ggml/lib")
elseif(NOT ggml_is_ours AND NOT ggml_libdir IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    set(model_rpath ${ggml_libdir})
endif()
set_target_properties(ggml-hsa-model ggml-hsa-bench-op ggml-hsa-validate-ops PROPERTIES INSTALL_RPATH "${model_rpath}")
install(TARGETS ggml-hsa-model ggml-hsa-bench-op ggml-hsa-validate-ops RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/ggml-hsa)
install(FILES include/ggml-hsa.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ggml-hsa)
set(GGML_HINT "") # where find_package(ggml) may look besides
if(GGML_HSA_INSTALL_GGML)
    set(GGML_HINT "\${PACKAGE_PREFIX_DIR}/${bundle}")
elseif(NOT ggml_is_ours)
    set(GGML_HINT "${ggml_DIR}")
endif()
install(EXPORT ggml-hsa-targets NAMESPACE ggml-hsa:: DESTINATION ${package_dir})
configure_package_config_file(cmake/ggml-hsa-config.cmake.in
    ${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa-config.cmake
    INSTALL_DESTINATION ${package_dir}
    PATH_VARS GGML_HSA_PLUGIN_DIR CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa-config-version.cmake
        DESTINATION ${package_dir})

# Not every installation of ggml brings a ggml.pc; then its directories are written out.
set(PC_REQUIRES ggml)
set(PC_GGML_CFLAGS "")
set(PC_GGML_LIBS "-lggml-base") # Debian's ggml.pc does not name it
set(PC_CPU "")
find_file(GGML_PC ggml.pc PATHS ${ggml_libdir}/pkgconfig NO_DEFAULT_PATH)
mark_as_advanced(GGML_PC)
if(GGML_HSA_INSTALL_GGML)
    set(PC_REQUIRES "")
    set(PC_CPU "\${prefix}/${bundle}/bin/libggml-cpu.so")
    set(PC_GGML_CFLAGS "-I\${prefix}/${bundle}/include")
    set(PC_GGML_LIBS "-L\${prefix}/${bundle}/lib -Wl,-rpath,\${prefix}/${bundle}/lib -lggml -lggml-base")
elseif(NOT GGML_PC AND NOT ggml_is_ours)
    set(PC_REQUIRES "")
    set(PC_GGML_CFLAGS "-I${GGML_INCLUDE_DIR}")
    set(PC_GGML_LIBS "-L${GGML_LIB_DIR} -lggml -lggml-base")
endif()
configure_file(ggml-hsa.pc.in ${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
