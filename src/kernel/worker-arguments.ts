/** For threads with TypeScript source: below node_modules Node does not strip the types, and a thread has no hooks of its own. */
export const workerArguments: readonly string[] = [
  '--import',
  new URL('../../bin/strip-types.mjs', import.meta.url).href,
]
