// Package extism runs Extism plugins, unmodified, through extism/go-sdk, and
// closes what that SDK leaves open.
//
// The SDK makes instances, finds out how a plugin's language begins, and calls
// it. None of its host functions is reachable from a plugin: [Compile] gives
// every import of extism:host/env another name, under which a function of ours
// stands. So
//
//   - http_request goes to the call's guarded fetcher. The SDK's follows
//     redirects to any host, checks no address, and adds no secrets.
//   - the kernel, which holds inputs, outputs and what plugin and host exchange,
//     is ours and plain Go ([kernel]). The SDK's is a WebAssembly module whose
//     lists lie in the very memory that the plugin may write: a plugin can make
//     them endless, and its calls then never return.
//   - what the SDK answers with a panic ends the call with a code.
//   - AllowedPaths, AllowedHosts, Config and Timeout of the SDK stay empty.
//     Files are those of package wasihost, the rest comes from the grant.
//
// Every call has an instance of its own: no memory, variable or descriptor of
// one call is there in the next. What a plugin stores with var_set is kept in
// the module's store if the grant has kv, else it lives as long as the call.
//
// Plugins that describe themselves are understood in two styles: describe and
// call (mcp.run), list_tools and call_tool (hyper-mcp 2). Asking them runs them:
// it happens without any grant.
package extism
