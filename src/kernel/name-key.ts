/** Names that differ by case or by how a letter is composed are one name. */
export const nameKey = (name: string): string => name.normalize('NFC').toLowerCase()
