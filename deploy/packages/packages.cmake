# Debian packages by CPack, a component each. deploy/release.sh calls it; README.md in this folder lists the packages.

set(folder ${CMAKE_CURRENT_LIST_DIR})

# The units name the programs of the prefix that they are installed under.
foreach(unit upscaled upscale-worker)
  set(component server)
  if(unit STREQUAL upscale-worker)
    set(component worker)
  endif()
  install(CODE "
    file(READ \"${PROJECT_SOURCE_DIR}/deploy/systemd/${unit}.service\" text)
    string(REPLACE /usr/local \"\${CMAKE_INSTALL_PREFIX}\" text \"\${text}\")
    file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/${unit}.service\" \"\${text}\")"
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  # Beyond the prefix, so only in packages.
  install(FILES ${folder}/${unit}.default DESTINATION /etc/default RENAME ${unit} COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
install(DIRECTORY DESTINATION /etc/upscaled COMPONENT server EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_SOURCE_DIR}/deploy/systemd/gpu.conf DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT server)

# Each package's copyright file, and the manual pages and completions of its programs, out of their own --help.
set(programs_server upscaled)
set(programs_client upscale upscale-full)
set(programs_worker upscale-worker)
set(packages "server=upscaled;client=upscaled-client;worker=upscaled-worker;tools=upscaled-tools;dev=libupscaled-dev;library=libupscaled1;opencl=upscaled-opencl;cuda=upscaled-cuda")
foreach(pair IN LISTS packages)
  string(REPLACE "=" ";" pair "${pair}")
  list(GET pair 0 component)
  list(GET pair 1 package)
  if((component MATCHES "opencl|cuda" AND NOT TARGET upscaled_${component}) OR (component STREQUAL library AND NOT TARGET libupscaled))
    continue()
  endif()
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  foreach(program IN LISTS programs_${component})
    install(CODE "
      execute_process(COMMAND python3 \"${folder}/make_pages.py\" \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${program}\"
        \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\" COMMAND_ERROR_IS_FATAL ANY)"
      COMPONENT ${component} EXCLUDE_FROM_ALL)
  endforeach()
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_SET_DESTDIR ON)  # of files in /etc
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES OFF)  # done with the debug files
set(CPACK_PACKAGE_CONTACT "upscaled maintainers <upscaled@localhost>")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_DEBUGINFO_PACKAGE ON)
set(CPACK_POST_BUILD_SCRIPTS ${folder}/mend_symbols.cmake)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_COMPONENT_SERVER_DESCRIPTION "Image upscaling service: server\n Serves over HTTP and gRPC, with a page for browsers and two models.")
set(CPACK_COMPONENT_CLIENT_DESCRIPTION "Image upscaling service: command line\n Upscales through a server, or with --local through one of its own.")
set(CPACK_COMPONENT_WORKER_DESCRIPTION "Image upscaling service: worker on queued jobs\n Takes jobs from SQLite, Redis or NATS and stores the results.")
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "Image upscaling service: training and benchmark\n Trains models and measures kernels.")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Image upscaling service: files for developers\n The header of the C library, and the gRPC contract.")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Image upscaling service: C library\n The engine for programs in any language; it finds the models of the package upscaled.")
set(CPACK_COMPONENT_OPENCL_DESCRIPTION "Image upscaling service: plugin for OpenCL devices\n The server loads it at its start.")
set(CPACK_COMPONENT_CUDA_DESCRIPTION "Image upscaling service: plugin for NVIDIA GPUs\n The server loads it at its start; it needs NVIDIA's driver.")
set(CPACK_DEBIAN_SERVER_PACKAGE_RECOMMENDS "upscaled-client, ca-certificates")
set(CPACK_DEBIAN_CLIENT_PACKAGE_SUGGESTS upscaled)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS upscaled)
if(TARGET libupscaled)
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libupscaled1 (= ${PROJECT_VERSION})")
endif()
foreach(plugin OPENCL CUDA)
  set(CPACK_DEBIAN_${plugin}_PACKAGE_DEPENDS "upscaled (= ${PROJECT_VERSION})")
endforeach()
foreach(component server worker)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA
    ${folder}/${component}/conffiles ${folder}/${component}/postinst ${folder}/${component}/prerm ${folder}/${component}/postrm)
endforeach()
include(CPack)
