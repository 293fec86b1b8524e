import { AppError } from '../../contract/app-error.ts'
import { readYaml } from '../agents/read-yaml.ts'
import type { Findings } from './read-fields.ts'

const isText = (path: readonly string[]): boolean =>
  path.length === 2 && path[0] === 'metadata' && (path[1] === 'version' || path[1] === 'name')

/** A manifest as plain data; what keeps it from being that is reported. */
export function parseYaml(findings: Findings, text: string): unknown {
  try {
    const { fields, unquoted } = readYaml(text, isText)
    for (const field of unquoted) findings.warn(field, 'is a text; put it in quotes')
    return fields
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    findings.error('manifest', error.message)
    return undefined
  }
}
