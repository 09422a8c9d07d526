# How this project builds its targets: one warnings-and-language target, and three small functions.

add_library(upscaled_build_options INTERFACE)
target_compile_features(upscaled_build_options INTERFACE cxx_std_20)
target_compile_options(upscaled_build_options INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -fno-math-errno
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
target_include_directories(upscaled_build_options INTERFACE ${PROJECT_SOURCE_DIR})
if(UPSCALED_SANITIZE)
  target_compile_options(upscaled_build_options INTERFACE
    -fsanitize=${UPSCALED_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(upscaled_build_options INTERFACE -fsanitize=${UPSCALED_SANITIZE})
endif()

# upscaled_library(NAME SOURCES... [DEPS ...] [PRIVATE_DEPS ...]): a static library.
function(upscaled_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC upscaled_build_options ${ARG_DEPS}
                                PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

# upscaled_binary(NAME SOURCES ... [DEPS ...]): an executable in <build>/bin that is installed.
function(upscaled_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE upscaled_build_options ${ARG_DEPS})
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# upscaled_test(NAME SOURCES ... [DEPS ...] [LABELS ...] [TIMEOUT seconds] [SERIAL]): one GoogleTest
# executable whose tests ctest runs one by one.
function(upscaled_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE upscaled_build_options ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(properties TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL ${ARG_SERIAL})
  if(ARG_LABELS)
    list(APPEND properties LABELS ${ARG_LABELS})
  endif()
  gtest_discover_tests(${name}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DISCOVERY_TIMEOUT 60
    PROPERTIES ${properties})
endfunction()
