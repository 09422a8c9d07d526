// A shared library that is no plugin.
extern "C" int NotThePluginsEntry() { return 0; }
