# What `cmake --install` puts where, under the prefix:
#
#   lib/libggml-hsa.so                 the plugin; GGML_BACKEND_PATH=<it> makes ggml programs load it
#   lib/ggml-hsa/libhsa-emu.so         the emulated runtime, out of the way of a real one
#   lib/cmake/ggml-hsa, lib/pkgconfig  for programs that link: ggml-hsa::ggml-hsa, ggml-hsa.pc
#   lib/librocm-kernels.so             GPU kernels that are compiled once and kept
#   bin/ggml-hsa, bin/ggml-hsa-gen-kernels, bin/rocm-kernels
#   include/ggml-hsa.h, hsa-emu.h, rocm-kernels.h, rocm-kernels-args.h
#   share/ggml-hsa                     examples, env_setup.sh and requirements.txt
#   share/doc/ggml-hsa
#   share/man/man1, share/bash-completion/completions, share/zsh/site-functions
include(CMakePackageConfigHelpers)

install(TARGETS hsa-emu LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ggml-hsa)
install(TARGETS ggml-hsa-tool ggml-hsa-gen-kernels rocm-kernels-tool
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS rocm-kernels LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES src/hip/kernels/kernels.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        RENAME rocm-kernels-args.h)
install(FILES include/hsa-emu.h include/rocm-kernels.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES env_setup.sh requirements.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/ggml-hsa)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/ggml-hsa/examples
        FILES_MATCHING PATTERN "*.json" PATTERN "*.c" PATTERN "mnist" EXCLUDE)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
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

# A ggml outside the loader's directories is found by the path that it has here.
get_filename_component(ggml_libdir ${ggml_DIR}/../.. ABSOLUTE)
set(rpath "$ORIGIN")
if(NOT ggml_libdir IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    list(APPEND rpath ${ggml_libdir})
endif()
set_target_properties(ggml-hsa PROPERTIES INSTALL_RPATH "${rpath}")
install(TARGETS ggml-hsa EXPORT ggml-hsa-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/ggml-hsa.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ggml-hsa)
install(EXPORT ggml-hsa-targets NAMESPACE ggml-hsa:: DESTINATION ${package_dir})
configure_package_config_file(cmake/ggml-hsa-config.cmake.in
    ${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa-config.cmake
    INSTALL_DESTINATION ${package_dir}
    PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa-config-version.cmake
        DESTINATION ${package_dir})

# Not every installation of ggml brings a ggml.pc; then its directories are written out.
set(PC_REQUIRES "")
set(PC_GGML_CFLAGS "")
set(PC_GGML_LIBS "")
find_file(GGML_PC ggml.pc PATHS ${ggml_libdir}/pkgconfig NO_DEFAULT_PATH)
mark_as_advanced(GGML_PC)
if(GGML_PC)
    set(PC_REQUIRES ggml)
else()
    set(PC_GGML_CFLAGS "-I${GGML_INCLUDE_DIR}")
    set(PC_GGML_LIBS "-L${GGML_LIB_DIR} -lggml -lggml-base")
endif()
# Paths in it are relative to the file, so that the tree can be moved.
file(RELATIVE_PATH PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(ggml-hsa.pc.in ${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ggml-hsa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
