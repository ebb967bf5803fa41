# Identity of the kernel compiler: a SHA-256 over every file that shapes the code it makes, by path
# and content, written into a header when one of them changes. Two builds of one source have the
# same identity, wherever they lie and whatever compiled them.
#
#   compiler_identity(target)   makes compiler-identity.h and puts its directory on target's path
#
# Run as a script (cmake -D OUT=... -P Identity.cmake) it is the step that writes the header.
if(CMAKE_SCRIPT_MODE_FILE)
    get_filename_component(src ${CMAKE_SCRIPT_MODE_FILE}/../../src ABSOLUTE)
    file(GLOB_RECURSE files RELATIVE ${src} ${src}/aie/*.[ch] ${src}/aie/*.def ${src}/kernel/*.[ch]
         ${src}/kernel/*.def ${src}/tensor/*.[ch])
    list(FILTER files EXCLUDE REGEX "^aie/(verify|tune)/") # they look at code and make none
    list(SORT files)
    set(text "")
    foreach(file ${files})
        file(SHA256 ${src}/${file} hash)
        string(APPEND text "${file} ${hash}\n")
    endforeach()
    string(SHA256 hash "${text}")
    set(header "#define AIE_COMPILER_IDENTITY \"aie ${hash}\"\n")
    if(EXISTS ${OUT})
        file(READ ${OUT} old)
    endif()
    if(NOT header STREQUAL "${old}") # an unchanged header causes no rebuild
        file(WRITE ${OUT} "${header}")
    endif()
    return()
endif()

set(IDENTITY_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(compiler_identity target)
    set(header ${CMAKE_CURRENT_BINARY_DIR}/identity/compiler-identity.h)
    set(src ${CMAKE_SOURCE_DIR}/src)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS ${src}/aie/*.[ch] ${src}/aie/*.def
         ${src}/kernel/*.[ch] ${src}/kernel/*.def ${src}/tensor/*.[ch])
    add_custom_command(OUTPUT ${header}.stamp BYPRODUCTS ${header}
        COMMAND ${CMAKE_COMMAND} -D OUT=${header} -P ${IDENTITY_SCRIPT}
        COMMAND ${CMAKE_COMMAND} -E touch ${header}.stamp
        DEPENDS ${files} ${IDENTITY_SCRIPT} VERBATIM)
    add_custom_target(compiler-identity DEPENDS ${header}.stamp)
    add_dependencies(${target} compiler-identity)
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/identity)
endfunction()
