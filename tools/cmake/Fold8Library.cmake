# Flags shared by every translation unit of fold8, and helpers that declare libraries and tests.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")   # kernels choose their own level in runtime/kernels

find_package(Threads REQUIRED)

add_library(fold8_flags INTERFACE)
target_include_directories(fold8_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_link_libraries(fold8_flags INTERFACE Threads::Threads)
target_compile_options(fold8_flags INTERFACE
  -Wall -Wextra
  -Wno-missing-field-initializers   # attribute structs are initialized by their defaults
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>   # g++ 12 warns falsely on std::string + (its bug 105651)
  -ffp-contract=off              # the numeric contract: an FMA only where the source says fma
  -fno-math-errno
  -ffunction-sections -fdata-sections)   # so that --gc-sections leaves out of the library what its interface cannot reach
if(FOLD8_WERROR)
  target_compile_options(fold8_flags INTERFACE -Werror)
endif()
if(FOLD8_SANITIZE)
  target_compile_options(fold8_flags INTERFACE -fsanitize=${FOLD8_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(fold8_flags INTERFACE -fsanitize=${FOLD8_SANITIZE})
endif()

# fold8_add_objects(NAME file...): an object library, linked into fold8_runtime or an offline library.
function(fold8_add_objects name)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PUBLIC fold8_flags)
endfunction()

# fold8_small(NAME [EXCEPT file...]): optimizes the files of an object library for size: code that runs once a model or
# a shape.
function(fold8_small name)
  cmake_parse_arguments(S "" "" "EXCEPT" ${ARGN})
  get_target_property(files ${name} SOURCES)
  list(FILTER files INCLUDE REGEX "\\.cc$")
  list(REMOVE_ITEM files ${S_EXCEPT})
  set_property(SOURCE ${files} TARGET_DIRECTORY ${name} APPEND PROPERTY COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-Os>)
endfunction()
