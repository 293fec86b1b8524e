import { AppError } from '../../contract/app-error.ts'

const PATH_BYTES_MAX = 4096
const NAME_BYTES_MAX = 255

/**
 * File names are bytes, not text. In this folder they are byte strings with one character for each byte, so that names in any
 * encoding stay unchanged.
 */
export type ByteString = string

export const bytesOfText = (text: string): ByteString => Buffer.from(text, 'utf8').toString('latin1')
/** For display: bytes that are not UTF-8 become replacement characters. */
export const textOfBytes = (bytes: ByteString): string => Buffer.from(bytes, 'latin1').toString('utf8')

/** A path split into names, without empty ones and `.`. `..` stays, because its meaning is known only during the walk. */
type SplitPath = Readonly<{
  isAbsolute: boolean
  names: readonly ByteString[]
  /** The path ends so that it can only mean a directory. */
  wantsDirectory: boolean
}>

/** A validated path of a caller, with the name of its field for messages. */
export type RequestedPath = SplitPath & Readonly<{ field: string; text: string }>

export function splitPath(path: ByteString): SplitPath {
  const parts = path.split('/')
  return {
    isAbsolute: path.startsWith('/'),
    names: parts.filter((part) => part !== '' && part !== '.'),
    wantsDirectory: ['', '.', '..'].includes(parts.at(-1)!),
  }
}

export function askPath(field: string, text: string): RequestedPath {
  const refuse = (rule: string): never => {
    throw new AppError('ERR_INVALID_INPUT', `${field}: ${rule}`, { field })
  }
  if (text === '') refuse('is empty; give an absolute path such as /home/notes.txt')
  if (text.includes('\0')) refuse('contains a NUL character, which no path can have; remove it')
  if (!text.isWellFormed()) refuse('is not well-formed Unicode; give a path that can be written in UTF-8')
  if (!text.startsWith('/')) refuse('is relative; give an absolute path, beginning with /')
  const bytes = bytesOfText(text)
  if (bytes.length > PATH_BYTES_MAX) {
    refuse(`has ${bytes.length} bytes, at most ${PATH_BYTES_MAX} are allowed; give a shorter path`)
  }
  const split = splitPath(bytes)
  if (split.names.some((name) => name.length > NAME_BYTES_MAX)) {
    refuse(`has a name of more than ${NAME_BYTES_MAX} bytes between two slashes; give a shorter one`)
  }
  return { ...split, field, text }
}
