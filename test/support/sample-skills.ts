import type { SkillSource } from '../../src/mcp/skill-source.ts'

const skillMarkdown = (name: string, description: string): string =>
  `---\nname: ${name}\ndescription: ${description}\n---\n\n# ${name}\n\nRead references/guide.md first.\n`

/** Two skills in memory, one with a folder below it and a binary file. */
export function createSampleSkills(): SkillSource & { write(path: string, text: string): void } {
  const listeners = new Set<() => void>()
  const files = new Map<string, Uint8Array>()
  const put = (path: string, text: string): void => {
    files.set(path, Buffer.from(text))
  }
  put('review-notes/SKILL.md', skillMarkdown('review-notes', 'How to review notes.'))
  put('review-notes/references/guide.md', '# Guide\n')
  files.set('review-notes/assets/dot.png', Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 0xff, 0xfe]))
  put('write-summary/SKILL.md', skillMarkdown('write-summary', 'How to write a summary.'))

  const nameOf = (path: string): string => path.slice(0, path.indexOf('/'))
  return {
    async list() {
      const names = [...new Set([...files.keys()].map(nameOf))]
      return names.map((name) => ({
        name,
        description: `The skill ${name}.`,
        files: [...files.keys()].filter((path) => nameOf(path) === name).map((path) => path.slice(name.length + 1)),
      }))
    },
    async read(_principal, skill, path) {
      return files.get(`${skill}/${path}`)
    },
    refresh: async () => {},
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    write(path, text) {
      put(path, text)
      for (const listener of listeners) listener()
    },
  }
}
