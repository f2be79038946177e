# The installed package as a C++ user meets it: install, find_package(transfuse), build the example program, run it; then
# the installed command.   cmake -DBUILD=… -DSOURCE=… -DCOMPILER=… -DGENERATOR=… -P package.cmake
set(prefix ${BUILD}/package/prefix)
set(example ${BUILD}/package/example)
file(REMOVE_RECURSE ${BUILD}/package)

function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nexited with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component cpp)
step(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE}/examples/cpp -B ${example} -DCMAKE_PREFIX_PATH=${prefix}
     -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_CXX_FLAGS=${FLAGS})
step(${CMAKE_COMMAND} --build ${example})
step(${example}/decoder)
if(NOT output MATCHES "largest difference from float64")
  message(FATAL_ERROR "the example did not report its error:\n${output}")
endif()
step(${prefix}/bin/transfuse --version)
step(${prefix}/bin/transfuse collect-env)
