# Rooms: what each folder of src may know. The table is the law: a source sees the headers of its own room, of the
# rooms that its row names and of those that these know, and no others, because nothing else is on its include path.
# A row names rooms of rows above it, so that there are no circles. docs/architecture.md shows the same table.
#
# Included behind all targets of src: gives each source the include path of its room. Headers are reached through
# build/rooms/<room>, where links to the headers of that room alone lie.
set(ROOMS
    "base:"
    "amdxdna: base"
    "keep: base"
    "tensor: base"
    "kernel: tensor"
    "aie/isa: base"
    "aie/target: aie/isa"
    "aie/image: aie/target"
    "aie/asm: aie/target"
    "aie/verbs: aie/asm"
    "aie/array: aie/image"
    "aie: aie/verbs aie/array kernel"
    "aie/tune: aie"
    "aie/verify: aie/image kernel"
    "store: aie aie/verify keep"
    "hsa: amdxdna"
    "hip: kernel keep"
    "emu/cache: base"
    "emu/aie: aie/isa"
    "emu/gfx: base"
    "emu/aql: emu/gfx"
    "emu/accel: emu/aie emu/cache amdxdna"
    "emu/kfd: emu/aql"
    "runtime: amdxdna emu/aie emu/aql emu/cache"
    "backend: hsa kernel"
    "backend/npu: backend store"
    "backend/gpu: backend hip"
    "backend/plugin: backend/npu backend/gpu")

# Links in build/rooms/<room> to what may be included of src/<room>. Of a folder with rooms in it only its own files.
function(room_link room)
    set(from ${CMAKE_SOURCE_DIR}/src/${room})
    set(to ${CMAKE_BINARY_DIR}/rooms/${room}/${room})
    file(MAKE_DIRECTORY ${to})
    file(GLOB_RECURSE files RELATIVE ${from} CONFIGURE_DEPENDS ${from}/*.h ${from}/*.def)
    foreach(row ${ROOMS})
        if(row MATCHES "^${room}/([^:]*):")
            list(FILTER files EXCLUDE REGEX "^${CMAKE_MATCH_1}/")
        endif()
    endforeach()
    foreach(file ${files})
        get_filename_component(folder ${to}/${file} DIRECTORY)
        file(MAKE_DIRECTORY ${folder})
        file(CREATE_LINK ${from}/${file} ${to}/${file} SYMBOLIC)
    endforeach()
endfunction()

file(REMOVE_RECURSE ${CMAKE_BINARY_DIR}/rooms) # a header that is gone or has moved
set(ROOM_NAMES "")
foreach(row ${ROOMS})
    string(REGEX MATCH "^([^:]*):(.*)$" row "${row}")
    set(room ${CMAKE_MATCH_1})
    separate_arguments(knows UNIX_COMMAND "${CMAKE_MATCH_2}")
    set(ROOM_PATH_${room} ${CMAKE_BINARY_DIR}/rooms/${room})
    foreach(other ${knows})
        if(NOT DEFINED ROOM_PATH_${other})
            message(FATAL_ERROR "cmake/Rooms.cmake: ${room} knows ${other}, which is in no row above it")
        endif()
        list(APPEND ROOM_PATH_${room} ${ROOM_PATH_${other}})
    endforeach()
    list(REMOVE_DUPLICATES ROOM_PATH_${room})
    list(PREPEND ROOM_NAMES ${room}) # aie/isa is found before aie
    room_link(${room})
    list(JOIN ROOM_PATH_${room} " -I" path)
    file(APPEND ${CMAKE_BINARY_DIR}/rooms/paths "room ${room}: -I${path}\n")
endforeach()

function(room_close directory)
    get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
        get_target_property(sources ${target} SOURCES)
        foreach(source ${sources})
            get_filename_component(source "${source}" ABSOLUTE BASE_DIR ${directory})
            set(file ${source})
            if(NOT file MATCHES "^${CMAKE_SOURCE_DIR}/src/") # made by the build
                set(file ${directory}/made.c)
            endif()
            file(RELATIVE_PATH file ${CMAKE_SOURCE_DIR}/src ${file})
            foreach(room ${ROOM_NAMES})
                if(file MATCHES "^${room}/.*[.]c$")
                    set_property(SOURCE ${source} TARGET_DIRECTORY ${target} APPEND
                                 PROPERTY INCLUDE_DIRECTORIES "${ROOM_PATH_${room}}")
                    break()
                endif()
            endforeach()
        endforeach()
    endforeach()
    get_property(inner DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
    foreach(directory ${inner})
        room_close(${directory})
    endforeach()
endfunction()

get_property(directories DIRECTORY PROPERTY SUBDIRECTORIES)
foreach(directory ${directories})
    room_close(${directory})
endforeach()
