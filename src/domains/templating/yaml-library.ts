import { createRequire } from 'node:module'

type Library = typeof import('yaml')
let library: Library | undefined

/** The YAML library, loaded when the first document comes: it is large, and a server may never see one. */
export function yamlLibrary(): Library {
  library ??= createRequire(import.meta.url)('yaml') as Library
  return library
}
