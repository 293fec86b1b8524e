import { afterAll, expect, it } from 'vitest'
import { likeness } from '../../src/kernel/hybrid-rank.ts'
import { createLocalEmbedder } from '../../src/search/local-embedder.ts'

/**
 * Sentences and their vectors as ONNX Runtime 1.30.0 makes them from the same file, as bytes with signs. It rounds what goes
 * between the layers to 8 bits, and we to 12, so they are near and not equal.
 */
const references: readonly (readonly [sentence: string, vector: string])[] = [
  [
    'The quick brown fox jumps over the lazy dog.',
    'IDIkOBfoAdsBAiAk6PH+7OLjLNnR2hQUy+rT3DK6/STnBvLINf4YESD64RfAI8vtBxDh9w0sM/X54B7yDBgJBBIW7cy1/AXf+/v38CHcKw362+IWFwIUD/vx58naEAkCBNvkFAANVw3s4wALQw4C8wBAFA/O7t6uL2LLDvfg7AA79MbV0cv17eobz/YG5O+3APcTJRdM5e8d9snr8SLl3+dO9bYn1PAo+wgVEdH4Dgn9FuUKKOLVQTbr7EYQ5/zfZcvQDvE6CBkWqhrsD+gi9FrI4hb4OQMH+N3h/CLfKgBO4Col4yD1HcUh5gj++00BLfQPBdkb/iUdLT/77rro1gLeFi/f//nAC/0DLxQL1iXjHvgWIRng2QLiEfEJFA0D8MPO5zXW9xIJywE+TQ1A4Qn0/AbZHrAvH80NMiM88wDYE7gjKxDrCzblFBAoFfMP6QITf/DW9fDi8r4D7AbbP8ENIRZIAhEIByH2/tL+5sAu3tvsIDPR/fnX4BEkICdD',
  ],
  [
    'Run the tests in a container, then tell me which of them failed.',
    'ERr1Cji91A6n5BavExKy0gD9EgQA8+0HAzrR4ffuDAbEH38GHu8W5CDXNkIP0dHl9fTi3eUR9NUMCP9PDNfgJDYuFtIVG8Ea5iQfW+qP+u6Yt94bG0lFAerlL/DiRk0rCOVDMvbcFx0D+Q6lG+b590ccEdnlHN0xGihKyvUvCAAYokNRMPvvSBgo8/3RuAMbAQzGGhOk5rULCv0NIRsS0q1Y/CoJLeHzt/YhHxTE2OI/IOcNzvsC4xUHD0/3Hqfy5wPRrR8Y+tQMBzTRAy3YxFOsyv+/DNva+M7tFxjI+gDfGvNNQb4m0/QHMvzjI6H967klIPVdDiGxMTaq9dBhQdVlPOoJBd/yOzO1CvhKPtcHGsrq5RzwCRIL1UrvKyIz3PrkZiAcIFcBzBXpo+cV0ADizE71Pzr7/foYHg4OLAAXzwz96hDPLN/k4xHEKxLK2Tjk3+ExVAyqRV8bEfYK69y57nrxGCc4tPcg8wPNlwn/tP/32Bn0AgTirw5eBf8E',
  ],
  [
    'Größe der Bilder ändern',
    '6UwH8OYvbzPutR3s6/veFvUMIini++DfKBkp/Pn0AjD1DPnpNQYiJr8N5egEHQw9vi4K2DYNM+v2Dv7nE9XT1wDBFOTHIB/34tjsHNfb8rjHGNP+HPMzCMr3Dt7K8ekKGSQqOwwK8hLX6AoUEtgL6yu9/PkrzN41FjbCPd8wRQDcBc0a8iHNBdrO+CIPyL4DH+c2ETAp8zMA+Fj93QEkBQ/k9PYQEtfaFN7V+D/z8C8r5wQH2yv0NecWBxgBWP0Q284h2t0HqO9QEtgO6PfzBY9ET9zx1+Hj3THHFPvOKAA01vng/T3X98pBKsof7gT2OxXP2tMN3gKUKybYtCni4Pc5QjsBXuMKxhL/f0HSthe3ERID75oB7unG8ToqEQITE+7ILWAJGSQBGtzxGEIXFu4p4EwS4OUQEr/L8+bEKQAE4uL47pkGFNpGGxGtBDkLB/zqCwLg3QHe6gjb8CcpD/EhJQr2H/Mf9QET5tur9u07SeQNMg7jTQu97vMyGEEC',
  ],
]

const embedder = createLocalEmbedder()
afterAll(() => embedder.close())
const { signal } = new AbortController()

it('makes the vectors that ONNX Runtime makes', async () => {
  const made = await embedder.embed(
    references.map(([sentence]) => sentence),
    signal,
  )
  for (const [index, [sentence, vector]] of references.entries()) {
    const reference = Float32Array.from(new Int8Array(Buffer.from(vector, 'base64')))
    expect(likeness(made[index]!, reference), sentence).toBeGreaterThan(0.98)
    for (const other of made.filter((_, position) => position !== index))
      expect(likeness(other, reference)).toBeLessThan(0.5)
    expect(Math.hypot(...made[index]!)).toBeCloseTo(1, 5)
  }
})

it('makes the same of a text whatever was asked before, and takes the beginning of a long one', async () => {
  const [alone] = await embedder.embed(['Sort my letters.'], signal)
  const [, again] = await embedder.embed(['word '.repeat(5_000), 'Sort my letters.'], signal)
  expect(again).toEqual(alone)
  const [empty] = await embedder.embed([''], signal)
  expect(empty!.every(Number.isFinite)).toBe(true)
})

it('begins again after its thread was ended', async () => {
  const [before] = await embedder.embed(['hello'], signal)
  await embedder.close()
  expect(await embedder.embed(['hello'], signal)).toEqual([before])
})
