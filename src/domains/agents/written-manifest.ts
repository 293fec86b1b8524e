import { composeManifest } from '../manifests/read-yaml.ts'
import { yamlLibrary } from '../templating/yaml-library.ts'
import { MANIFEST_API_VERSION } from './manifest-schema.ts'

type ManifestText = Readonly<{
  description: string | null
  labels: readonly Readonly<{ key: string; value: string }>[]
  systemPrompt: string | null
}>

const labelsOf = (labels: ManifestText['labels']): Record<string, string> =>
  Object.fromEntries(labels.map(({ key, value }) => [key, value]))

/** The first manifest of an agent that was created without one. It works on callers' messages, with the listed tools. */
export const firstManifest = (name: string, text: ManifestText, tools: readonly string[]): string =>
  yamlLibrary().stringify(
    {
      apiVersion: MANIFEST_API_VERSION,
      kind: 'Agent',
      metadata: { name, version: '1.0.0', description: text.description ?? '', labels: labelsOf(text.labels) },
      spec: {
        runtime: { image: 'castellan/host' },
        task: { system_prompt: text.systemPrompt ?? '' },
        tools: [...tools],
        execution: { mode: 'one-shot' },
      },
    },
    { lineWidth: 0, defaultStringType: 'PLAIN', defaultKeyType: 'PLAIN' },
  )

/** The same manifest with changed texts and tools; everything else stays as written, comments included. */
export function changedManifest(
  yaml: string,
  version: string,
  changes: Partial<ManifestText> & Readonly<{ tools?: readonly string[] }>,
): string {
  const { document } = composeManifest(yaml)
  const quoted = document.createNode(version)
  quoted.type = 'QUOTE_DOUBLE'
  document.setIn(['metadata', 'version'], quoted)
  if (changes.description !== undefined) document.setIn(['metadata', 'description'], changes.description ?? '')
  if (changes.labels !== undefined) {
    document.setIn(['metadata', 'labels'], document.createNode(labelsOf(changes.labels)))
  }
  if (changes.systemPrompt !== undefined) {
    document.setIn(['spec', 'task', 'system_prompt'], changes.systemPrompt ?? '')
  }
  if (changes.tools !== undefined) document.setIn(['spec', 'tools'], document.createNode(changes.tools))
  return document.toString({ lineWidth: 0 })
}
