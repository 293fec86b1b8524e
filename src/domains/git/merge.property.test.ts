import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { fingerprint, lines, mergeInto, prepareForks, targetFile } from '../../../test/support/git-merge.ts'
import { mergeStrategies } from './rules.ts'

const edit = fc.record({ line: fc.integer({ min: 1, max: 40 }), text: fc.constantFrom('red', 'green', 'blue') })
const fork = fc.array(edit, { minLength: 1, maxLength: 3 })
const scenario = fc.record({
  strategy: fc.constantFrom(...mergeStrategies),
  forks: fc.array(fork, { minLength: 1, maxLength: 2 }),
  target: fc.array(edit, { maxLength: 1 }),
})

it('either has all of a source in the target or nothing, whatever was changed where', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async ({ strategy, forks, target }) => {
      const names = forks.map((_, index) => `fork-${index}`)
      const lab = await prepareForks(...names)
      const commitEdits = async (
        workspaceId: string,
        edits: readonly { line: number; text: string }[],
      ): Promise<void> => {
        const changed: [number, string][] = []
        for (const [index, { line, text }] of edits.entries()) {
          changed.push([line, `${text} of ${workspaceId}`])
          await writeFile(join(await lab.folder(workspaceId), `${workspaceId}-${index}.txt`), text)
          await lab.commitFiles(workspaceId, `edit ${index}`, { 'long.txt': lines(...changed) })
        }
      }
      for (const [index, name] of names.entries()) await commitEdits(name, forks[index]!)
      await commitEdits('target', target)
      for (const [index, name] of names.entries()) {
        const before = await fingerprint(lab)
        const answer = await mergeInto(lab, strategy, [name])
        expect(await lab.git('target', 'status', '--porcelain')).toBe('')
        if (!answer.success) {
          expect(await fingerprint(lab)).toEqual(before)
          expect(answer.conflicts).toMatchObject([{ source_id: name, files: ['long.txt'] }])
          continue
        }
        const content = await targetFile(lab, 'long.txt')
        const last = new Map(forks[index]!.map(({ line, text }) => [line, `${text} of ${name}`]))
        for (const text of last.values()) expect(content).toContain(text)
        for (const file of forks[index]!.keys()) await targetFile(lab, `${name}-${file}.txt`)
      }
      await lab.git('target', 'fsck', '--strict')
    }),
    { numRuns: 6 },
  )
})
