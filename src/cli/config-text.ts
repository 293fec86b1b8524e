import { extname } from 'node:path'
import { parse as parseToml, TomlError } from 'smol-toml'
import { LineCounter, parseDocument } from 'yaml'
import { AppError } from '../contract/app-error.ts'
import { parseJsonc } from './jsonc.ts'

/**
 * A client's configuration in the format of its file name; JSON by default. Errors name line and column and quote nothing,
 * because such files contain secrets.
 */
export type ConfigFormat = 'json' | 'toml' | 'yaml'

export function formatOfFile(file: string): ConfigFormat {
  const extension = extname(file).toLowerCase()
  if (extension === '.toml') return 'toml'
  return extension === '.yaml' || extension === '.yml' ? 'yaml' : 'json'
}

export function parseConfigText(text: string, format: ConfigFormat): unknown {
  if (format === 'toml') return parseTomlText(text)
  return format === 'yaml' ? parseYamlText(text) : parseJsonc(text)
}

function parseTomlText(text: string): unknown {
  try {
    return parseToml(text.replace(/^\uFEFF/, ''))
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    throw notValid('TOML', error.line, error.column)
  }
}

function parseYamlText(text: string): unknown {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, stringKeys: true })
  const [error] = document.errors
  if (error !== undefined) {
    const { line, col } = lines.linePos(error.pos[0])
    throw notValid('YAML', line, col)
  }
  try {
    return document.toJS({ maxAliasCount: ALIASES_MAX })
  } catch {
    throw new AppError(
      'ERR_INVALID_INPUT',
      `the file is not valid YAML: it may have at most ${ALIASES_MAX} aliases, and each needs an anchor`,
    )
  }
}
const ALIASES_MAX = 100

const notValid = (format: string, line: number, column: number): AppError =>
  new AppError('ERR_INVALID_INPUT', `the file is not valid ${format} at line ${line}, column ${column}`)
