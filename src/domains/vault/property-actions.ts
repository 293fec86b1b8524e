import type { Call } from '../../contract/call.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import { editNote, pathOfNote, readText, type VaultContext } from './context.ts'
import { deleteField, readFrontmatter, setField } from './frontmatter.ts'
import { frontmatterAnswer } from './note-actions.ts'
import { type ActionSpec, action, type VaultAnswer } from './requests.ts'
import { invalid } from './rules.ts'
import { addTag, removeTag, tagName, tagsOf } from './tags.ts'

/** The actions on a note's properties, as Obsidian calls them. */
export function propertyActions(context: VaultContext): Readonly<Record<'frontmatter' | 'tags', ActionSpec>> {
  return {
    frontmatter: action(
      ['path', 'frontmatter_action'],
      ['key', 'value'],
      (call, { path, frontmatter_action, key, value }) => {
        switch (frontmatter_action) {
          case 'get':
            return getFields(context, call, path, key)
          case 'set':
            if (value === undefined) throw invalid('value', 'is required to set a field; null is a value too')
            return changeField(context, call, path, requireKey(key), value)
          case 'delete':
            return changeField(context, call, path, requireKey(key), undefined)
        }
      },
    ),
    tags: action(['path', 'tags_action'], ['tag'], async (call, { path, tags_action, tag }) => {
      const note = pathOfNote(context, path)
      if (tags_action === 'list') return { path, tags: tagsOf(await readText(context, call, note)) }
      const name = tagName(tag ?? '')
      if (name === undefined) {
        throw invalid('tag', 'must be a tag: letters, digits, "_", "-" and "/", not only digits')
      }
      const change = tags_action === 'add' ? addTag : removeTag
      const { text, isChanged } = await editNote(context, call, note, async (before) => ({
        text: change(before, name),
        answer: undefined,
      }))
      const tags = tagsOf(text)
      if (tags_action === 'remove' && tags.includes(name)) {
        call.warn('The tag also occurs in the text of the note, which is not changed.')
      }
      return { path, tags, changed: isChanged }
    }),
  }
}

function requireKey(key: string | undefined): string {
  if (key === undefined) throw invalid('key', 'is required to set or delete a field')
  if (key.trim() === '' || /[\u0000-\u001f\u007f]/.test(key) || key === '__proto__') {
    throw invalid('key', 'must be the name of a field: one line, not blank')
  }
  return key
}

async function getFields(
  context: VaultContext,
  call: Call,
  path: string,
  key: string | undefined,
): Promise<VaultAnswer> {
  const text = await readText(context, call, pathOfNote(context, path))
  const read = readFrontmatter(text)
  const answer = { path, ...frontmatterAnswer(text) }
  if (key === undefined || read.kind !== 'fields') return answer
  return { ...answer, key, frontmatter: Object.hasOwn(read.fields, key) ? { [key]: read.fields[key]! } : {} }
}

async function changeField(
  context: VaultContext,
  call: Call,
  path: string,
  key: string,
  value: Json | undefined,
): Promise<VaultAnswer> {
  const { text, isChanged } = await editNote(context, call, pathOfNote(context, path), async (before) => ({
    text: value === undefined ? deleteField(before, key) : setField(before, key, value),
    answer: undefined,
  }))
  return { path, key, changed: isChanged, ...frontmatterAnswer(text) }
}
