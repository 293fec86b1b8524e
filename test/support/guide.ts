import { expect } from 'vitest'

/** What a guide tells its reader to do: files to write, and commands with what they answer. */
export type Guide = Readonly<{ files: ReadonlyMap<string, string>; commands: readonly GuideCommand[] }>
type GuideCommand = Readonly<{ command: string; answer: string }>

/** A file is a block that begins with its name as a comment; commands are the lines with `$` of a console. */
export function readGuide(markdown: string): Guide {
  const files = new Map<string, string>()
  const commands: GuideCommand[] = []
  for (const [, language, body] of markdown.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)) {
    const name = /^# (\S+\.\w+)\n/.exec(body!)?.[1]
    if (name !== undefined) files.set(name, body!)
    if (language !== 'console') continue
    for (const part of body!.split(/^\$ /m).slice(1)) {
      const [, command, answer] = /^((?:.*\\\n)*.*)\n([\s\S]*)$/.exec(part)!
      commands.push({ command: command!, answer: answer! })
    }
  }
  return { files, commands }
}

const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'

/**
 * Compares answers with those of a guide: `…` stands for anything, white space for nothing. The ids of the guide stand for
 * those of this run, the same one each time, also in the commands.
 */
export function createTranscript() {
  const ids = new Map<string, string>()

  function compare(expected: string, actual: string): void {
    const opened: string[] = []
    const source = expected
      .split(new RegExp(`(…|${UUID})`))
      .map((part) => {
        if (part === '…') return '.*?'
        if (!new RegExp(`^${UUID}$`).test(part)) return RegExp.escape(part.replaceAll(/\s/g, ''))
        const known = ids.get(part)
        if (known !== undefined) return RegExp.escape(known)
        const index = opened.indexOf(part)
        if (index >= 0) return `\\${index + 1}`
        opened.push(part)
        return `(${UUID})`
      })
      .join('')
    const found = new RegExp(`^${source}$`, 's').exec(actual.replaceAll(/\s/g, ''))
    if (found === null) expect(actual).toBe(expected)
    for (const [index, id] of opened.entries()) ids.set(id, found![index + 1]!)
  }

  return {
    compare,
    inThisRun: (command: string): string => command.replaceAll(new RegExp(UUID, 'g'), (id) => ids.get(id) ?? id),
  }
}
