import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { type ComposedYaml, composeYaml, yamlKeyCharsMax } from '../templating/bounded-yaml.ts'
import { yamlAdvice } from '../templating/yaml-advice.ts'
import { yamlLibrary } from '../templating/yaml-library.ts'

/**
 * `fields` is plain, own and mutable: maps are objects, lists are arrays, numbers are finite. `unquoted` names string fields that
 * were written as a number or a boolean.
 */
export type YamlFields = { [key: string]: unknown }
export type ReadYaml = Readonly<{ fields: YamlFields; unquoted: readonly string[] }>

export const manifestInvalid = (message: string, details: Readonly<Record<string, unknown>> = {}): AppError =>
  new AppError('ERR_MANIFEST_INVALID', message, details)

/**
 * Parses one untrusted YAML document (JSON is YAML too) in bounded time and space: an alias counts as its expansion. `isText`
 * says which fields are strings, so that `version: 1.10` stays `1.10`.
 */
export function readYaml(text: string, isText: (path: readonly string[]) => boolean): ReadYaml {
  const { document, targets } = composeManifest(text)
  const walk: Walk = { targets, isText, unquoted: [], left: limits.manifestValuesMax, aliasDepth: 0 }
  const value = plain(document.contents, [], walk)
  if (!isFields(value)) throw manifestInvalid('manifest_yaml must be an object that begins with apiVersion')
  return { fields: value, unquoted: walk.unquoted }
}

/** The document as it is written, with comments and aliases. */
export function composeManifest(text: string): ComposedYaml {
  if (text.length > limits.manifestCharsMax) {
    throw manifestInvalid(`manifest_yaml is longer than ${limits.manifestCharsMax} characters; shorten it`)
  }
  const composed = composeYaml(text, {
    depthMax: limits.manifestDepthMax,
    valuesMax: limits.manifestValuesMax,
    warnings: 'refused',
  })
  if ('problem' in composed) {
    const { code, line } = composed.problem
    if (code === 'TOO_DEEP') throw tooDeep()
    if (code === 'TOO_MANY_VALUES') throw tooMany()
    throw manifestInvalid(`manifest_yaml is not valid YAML: ${yamlAdvice(code)} (line ${line})`)
  }
  return composed
}

export const isFields = (value: unknown): value is YamlFields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const pathText = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, part) =>
      typeof part === 'number' || /^\d+$/.test(String(part))
        ? `${text}[${String(part)}]`
        : `${text}${text && '.'}${String(part)}`,
    '',
  )

type Walk = {
  targets: ComposedYaml['targets']
  isText: (path: readonly string[]) => boolean
  unquoted: string[]
  left: number
  aliasDepth: number
}

function plain(node: unknown, path: readonly string[], walk: Walk): unknown {
  if (walk.left-- <= 0) throw tooMany()
  if (path.length > limits.manifestDepthMax) throw tooDeep()
  if (yamlLibrary().isAlias(node)) {
    const target = walk.targets.get(node)
    if (target === undefined) throw manifestInvalid(`${pathText(path)} is an alias without an anchor`)
    if (++walk.aliasDepth > limits.manifestDepthMax) throw tooDeep()
    const value = plain(target, path, walk)
    walk.aliasDepth--
    return value
  }
  if (yamlLibrary().isMap(node)) return plainMap(node.items, path, walk)
  if (yamlLibrary().isSeq(node)) return node.items.map((item, index) => plain(item, [...path, String(index)], walk))
  if (!yamlLibrary().isScalar(node)) return null
  const { value } = node
  if (typeof value !== 'string' && value !== null && walk.isText(path)) {
    walk.unquoted.push(pathText(path))
    return node.source ?? String(value)
  }
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw manifestInvalid(`${pathText(path)} is not a number that JSON can represent`)
  }
  return typeof value === 'bigint' ? Number(value) : value
}

function plainMap(
  items: readonly Readonly<{ key: unknown; value: unknown }>[],
  path: readonly string[],
  walk: Walk,
): YamlFields {
  const fields: YamlFields = {}
  for (const { key, value } of items) {
    const name = yamlLibrary().isScalar(key) ? String(key.value) : String(key)
    if (name.length > yamlKeyCharsMax) {
      throw manifestInvalid(`${pathText(path)}: a name in it is longer than ${yamlKeyCharsMax} characters; shorten it`)
    }
    const at = [...path, name]
    if (name === '<<') throw manifestInvalid(`${pathText(at)}: merge keys are not read; write the fields out`)
    if (name === '__proto__') throw manifestInvalid(`${pathText(at)} is not a valid name for a field`)
    fields[name] = plain(value, at, walk)
  }
  return fields
}

const tooDeep = (): AppError =>
  manifestInvalid(`manifest_yaml is nested deeper than ${limits.manifestDepthMax} levels; flatten it`)

const tooMany = (): AppError =>
  manifestInvalid(
    `manifest_yaml contains more than ${limits.manifestValuesMax} values, with aliases expanded; make it smaller`,
  )
