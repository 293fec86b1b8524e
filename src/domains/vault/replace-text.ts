import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { TimeSlicer } from '../../kernel/time-slicer.ts'
import { compilePattern, expandTemplate, parseTemplate } from './pattern.ts'
import { invalid } from './rules.ts'

type Replacement = Readonly<{ text: string; count: number }>
type ReplaceText = (text: string, slicer: TimeSlicer) => Promise<Replacement>

/** Every occurrence of a text by another. */
export function replaceLiteral(oldText: string, newText: string): ReplaceText {
  if (oldText === '') throw invalid('old_string', 'must not be empty')
  return async (text) => {
    const parts = text.split(oldText)
    const count = parts.length - 1
    requireBounded(text.length + count * (newText.length - oldText.length))
    return { text: parts.join(newText), count }
  }
}

/** Every match of a regular expression, from the left, by a template with groups. */
export function replacePattern(pattern: string, template: string): ReplaceText {
  const compiled = compilePattern(pattern, 'old_string')
  const parts = parseTemplate(template, compiled, 'new_string')
  return async (text, slicer) => {
    if (text.length * compiled.programSize() > limits.vaultPatternWorkMax) throw tooMuchWork()
    const matcher = compiled.matcher(text)
    const pieces: string[] = []
    let end = 0
    let length = 0
    let count = 0
    while (matcher.find()) {
      const piece = text.slice(end, matcher.start()) + expandTemplate(parts, matcher)
      length += piece.length
      requireBounded(length)
      pieces.push(piece)
      end = matcher.end()
      count++
      const pause = slicer.pause()
      if (pause === undefined) continue
      await pause
      if (slicer.spentMs() > limits.vaultReplaceMs) throw tooMuchWork()
    }
    pieces.push(text.slice(end))
    return { text: pieces.join(''), count }
  }
}

/** A text is never shorter in bytes than in characters, so this refuses only what the note could not hold. */
function requireBounded(characters: number): void {
  if (characters <= limits.vaultNoteBytesMax) return
  throw new AppError('ERR_TOO_LARGE', `The note would be larger than ${limits.vaultNoteBytesMax} bytes.`, {
    rule: `at most ${limits.vaultNoteBytesMax} bytes`,
  })
}

const tooMuchWork = (): AppError =>
  new AppError(
    'ERR_TOO_LARGE',
    'old_string: this regular expression takes too long on a note of this size. Make it simpler, or leave out regex.',
    { field: 'old_string', constraint: 'pattern and note too large together' },
  )
