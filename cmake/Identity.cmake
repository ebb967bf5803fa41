# Identity of the kernel compiler: a SHA-256 over every file that shapes the code it makes, by path
# and tokens, written into a header when one of them changes. Two builds of one source have the
# same identity, wherever they lie and whatever compiled them; comments and layout are not in it.
#
#   compiler_identity(target)   makes compiler-identity.h and puts its directory on target's path
#
# Run as a script (cmake -D OUT=... -P Identity.cmake) it is the step that writes the header.
if(CMAKE_SCRIPT_MODE_FILE)
    # What stands for a character that lists or patterns would take for something else.
    foreach(n RANGE 1 5)
        string(ASCII ${n} mark${n})
    endforeach()

    # read_tokens(file out): the text of a C source without comments and with one blank at most between
    # tokens. Literals stay as they are, and a directive ends where its line does.
    function(read_tokens file out)
        file(READ ${file} text)
        string(REPLACE ";" "${mark1}" text "\n${text}\n")
        string(REPLACE "[" "${mark2}" text "${text}")
        string(REPLACE "]" "${mark3}" text "${text}")
        set(literal "\"([^\"\\\n]|\\\\.)*\"|'([^'\\\n]|\\\\.)*'")
        set(comment "//[^\n]*|/\\*[^*]*\\*+([^/*][^*]*\\*+)*/")
        string(REGEX MATCHALL "${literal}|${comment}|[^\"'/]+|." parts "${text}")
        list(TRANSFORM parts REPLACE "^/[/*].*$" " ")
        list(TRANSFORM parts REPLACE " " "${mark4}" REGEX "^[\"']")
        list(JOIN parts "" text)
        string(REGEX REPLACE "\\\\[ \t]*\n" " " text "${text}")
        string(REGEX REPLACE "\n[ \t]*(#[^\n]*)" " \\1 ${mark5} " text "${text}")
        string(REGEX REPLACE "[ \t\n]+" " " text "${text}")
        set(${out} "${text}" PARENT_SCOPE)
    endfunction()

    get_filename_component(src ${CMAKE_SCRIPT_MODE_FILE}/../../src ABSOLUTE)
    file(GLOB_RECURSE files RELATIVE ${src} ${src}/aie/*.[ch] ${src}/aie/*.def ${src}/kernel/*.[ch]
         ${src}/kernel/*.def ${src}/tensor/*.[ch])
    list(FILTER files EXCLUDE REGEX "^aie/(verify|tune)/") # they look at code and make none
    list(SORT files)
    set(text "")
    foreach(file ${files})
        read_tokens(${src}/${file} tokens)
        string(SHA256 hash "${tokens}")
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
