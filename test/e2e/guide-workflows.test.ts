import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parseWorkflowManifest } from '../../src/domains/workflows/manifest.ts'
import { readGuide } from '../support/guide.ts'
import { setGuideStage } from '../support/guide-stage.ts'
import type { Line, SeenRequest } from '../support/scripted-model.ts'

const guide = readFileSync(new URL('../../docs/guides/workflows.md', import.meta.url), 'utf8')

const verdict = (score: number, reasoning: string): Line => ({
  text: JSON.stringify({ score, confidence: 0.9, reasoning }),
})

/** Only what the reviewers said, and then the person, makes the notes better. */
const model = ({ text }: SeenRequest): Line => {
  if (text.includes('Judge the release notes')) {
    if (!text.includes('New things.')) return verdict(0.9, 'Good.')
    return text.includes('Are they true?') ? verdict(0.4, 'They say nothing.') : verdict(0.3, 'Too vague.')
  }
  if (text.includes('Say which titles.')) return { text: 'Titles with marks make clean slugs.' }
  return { text: text.includes('They say nothing. Too vague.') ? 'Slugs are better.' : 'New things.' }
}

test('the guide to workflows is true, command by command', { timeout: 240_000 }, async () => {
  const read = readGuide(guide)
  const stage = await setGuideStage(read, model)
  await stage.follow()
  expect(read.commands.map(({ command }) => command)).toContain('castellan verify')
  // Three notes, each judged by two.
  expect(stage.requests).toHaveLength(9)
})

test('its picture shows the states and transitions of its workflow, and no others', () => {
  const { manifest, warnings } = parseWorkflowManifest(readGuide(guide).files.get('release.yaml')!)
  expect(warnings).toEqual([])
  const arrows = [`[*] --> ${manifest.initialState}`]
  for (const [name, { transitions }] of manifest.states) {
    if (transitions.length === 0) arrows.push(`${name} --> [*]`)
    for (const { condition, target } of transitions) {
      const threshold = 'threshold' in condition ? ` ${condition.threshold}` : ''
      arrows.push(`${name} --> ${target}: ${condition.type}${threshold}`)
    }
  }
  const [, picture] = /```mermaid\nstateDiagram-v2\n([\s\S]*?)```/.exec(guide)!
  expect(picture!.trim().split(/\n\s*/).sort()).toEqual(arrows.sort())
})
