import { createRequire } from 'node:module'

type Library = typeof import('yaml')
let library: Library | undefined

/** The YAML library, loaded with the first document: it is large, and a server may never need it. */
export function yamlLibrary(): Library {
  library ??= createRequire(import.meta.url)('yaml') as Library
  return library
}
