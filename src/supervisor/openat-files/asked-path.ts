import { AppError } from '../../contract/app-error.ts'

const PATH_BYTES_MAX = 4096
const NAME_BYTES_MAX = 255

/**
 * Names of files are bytes, not text. Inside this folder they are byte strings: one character for each byte, so that a
 * name in any encoding keeps its bytes.
 */
export type ByteString = string

export const bytesOfText = (text: string): ByteString => Buffer.from(text, 'utf8').toString('latin1')
/** For people: bytes that are not UTF-8 show as replacement characters. */
export const textOfBytes = (bytes: ByteString): string => Buffer.from(bytes, 'latin1').toString('utf8')

/** A path as its parts: no empty ones and no `.`; `..` stays, because what it means is known only while walking. */
type SplitPath = Readonly<{
  isAbsolute: boolean
  names: readonly ByteString[]
  /** It ends so that only a directory can be meant. */
  wantsDirectory: boolean
}>

/** A path that a caller gave, checked, with the name of its field for messages. */
export type AskedPath = SplitPath & Readonly<{ field: string; text: string }>

export function splitPath(path: ByteString): SplitPath {
  const parts = path.split('/')
  return {
    isAbsolute: path.startsWith('/'),
    names: parts.filter((part) => part !== '' && part !== '.'),
    wantsDirectory: ['', '.', '..'].includes(parts.at(-1)!),
  }
}

export function askPath(field: string, text: string): AskedPath {
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
