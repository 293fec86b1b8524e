import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { readStoredManifest } from './manifest.ts'
import type { WorkflowVersion } from './ports.ts'

const HINT_CHARS_MAX = 2_000

/** The states of workflows as words, for those without a description. A text is read once, as long as there is room. */
export function createSearchHints() {
  const hints = new Map<string, string>()

  function hintOf({ tenant, id, version, changedAtMs, manifestText }: WorkflowVersion): string {
    const key = JSON.stringify([tenant, id, version, changedAtMs])
    const hint = hints.get(key) ?? stateWords(manifestText)
    hints.set(key, hint)
    while (hints.size > limits.embeddingsCachedMax) hints.delete(hints.keys().next().value!)
    return hint
  }

  return <Row extends WorkflowVersion>(row: Row) => (row.description === '' ? { ...row, hint: hintOf(row) } : row)
}

function stateWords(text: string): string {
  try {
    const names = [...readStoredManifest(text).manifest.states.keys()]
    return names
      .map((name) => name.replaceAll(/[_-]+/g, ' ').toLowerCase())
      .join(', ')
      .slice(0, HINT_CHARS_MAX)
      .toWellFormed()
  } catch (error) {
    // A text that an earlier version took is still found by its name.
    if (error instanceof AppError) return ''
    throw error
  }
}
