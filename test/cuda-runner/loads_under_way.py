#!/usr/bin/env python3
"""loads_under_way.py CUOBJDUMP OBJECT...: checks in the machine code of products that they do not wait for weights.

Products of float weights load them straight to registers, and the compiler decides how many loads are pending at a time: it
may put each load right before its use, and then a warp waits for one load after the other. So this program counts,
between branches, the loads of weights before the first FFMA that uses one. The loads through the read-only path (.CONSTANT,
PTX's ld.global.nc) are the loads of weights; the program also checks that no other kernel loads anything that way. They are of 16
bytes a lane, and their least numbers are, by rows of the batch:

  1, 2  four: 16 warps x 4 x 512 bytes = 32 KiB are pending on a multiprocessor; 3.35 TB/s at 600 ns need 15 KiB on each of
        132. For two rows the gated product has one load less, because registers run out
  4     two
  8     one

Products of quantised weights copy them to shared memory without the use of registers (LDGSTS), stages ahead of their use, so
they must have no load of weights at all. What they wait for instead is the issue of instructions: for each operation of the
tensor cores (IMMA) there is a limit of all instructions of its loop, measured for Q4_0, whose own code is the shortest.
Products of float weights by tiles copy them in the same way, and have such a limit for each FFMA, by tiles and rows of the
batch of a block. Products of experts in groups are those products, and have their limits.
"""
import re
import subprocess
import sys

WANTED = {'1': 4, '2': 4, '4': 2, '8': 1}
WANTED_GATED = {**WANTED, '2': 3}
FLOATS = {'0': 'F32', '1': 'F16', '30': 'BF16'}
Q4_0 = '2'
# Instructions for each IMMA, by the parameters of the kernel: rows of the batch and matrices, or parts of a block's warps and
# tiles.
MOST = {('Segment', '8', '1'): 55, ('Segment', '16', '1'): 38, ('Segment', '32', '1'): 27, ('Segment', '8', '2'): 40,
        ('Segment', '16', '2'): 30, ('Segment', '32', '2'): 23, ('Tile', '1', '4'): 22, ('Tile', '2', '2'): 26}
# Instructions for each FFMA, by tiles and rows of the batch. Each row that a thread multiplies more weights by, and each
# weight for more rows, is one load of shared memory for more FFMA.
MOST_OF_FLOATS = {('4', '128'): 1.15, ('2', '64'): 1.32, ('2', '32'): 1.24, ('2', '16'): 1.42, ('1', '32'): 1.36,
                  ('1', '8'): 1.94, ('2', '8'): 1.94}
MOST_OF_FLOATS_FOR_120 = {**MOST_OF_FLOATS, ('1', '8'): 1.96}

FORMS = {'Vector', 'Segment', 'FloatTile', 'Tile'}

FUNCTION = re.compile(r'Function : (\S+)')
ARCHITECTURE = re.compile(r'arch = (sm_\d+)')
INSTRUCTION = re.compile(r'^\s+/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\S+\s+)?([A-Z][A-Z0-9_.]*)', re.MULTILINE)
JUMP = re.compile(r'/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\S+\s+)?BRA\S*\s.*?0x([0-9a-f]+)')
KERNEL = re.compile(r'(grouped_)?(gated_)?multiply_(?:(?:vectors|segments|tiles)_)?kernelINS_\d+(Vector|Segment|FloatTile|Tile)ProductI'
                    r'LNS_10TensorTypeE(\d+)E(?:XtlNS_9TileShapeE)?Lj(\d+)(?:ELj(\d+))?')
# Kernels that also read weights, or the lists of a step. Their loads are not counted, since only few models use them or they
# read little.
OTHER_READERS = re.compile(
    r'\d(expert_gated_multiply|add_expert_output|embed|norm|add_normed|norm_columns|attend_rows|attend_tiles|rope_store)_kernel')
CONSTANT_LOAD = '.CONSTANT'
BRANCHES = ('BRA', 'BRX', 'BSYNC', 'CALL', 'RET', 'EXIT')


def kernels(cuobjdump, path):
    """(architecture, name, its code as text) of each kernel of the object."""
    command = [cuobjdump, '-sass', path]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    functions = list(FUNCTION.finditer(text))
    architectures = list(ARCHITECTURE.finditer(text))
    for function, end in zip(functions, [each.start() for each in functions[1:]] + [len(text)]):
        architecture = [each[1] for each in architectures if each.start() < function.start()][-1]
        yield architecture, function[1], text[function.end():end]


def most_loads_before_use(operations):
    """The largest number of loads of weights before a use of one."""
    most, count = 0, 0
    for operation in operations:
        if operation.startswith('LDG') and CONSTANT_LOAD in operation:
            count += '.128' in operation
        elif operation.startswith('FFMA') or operation.startswith(BRANCHES):
            if operation.startswith('FFMA'):
                most = max(most, count)
            count = 0
    return most


def instructions_an(wanted, code):
    """Of the shortest loop that has asynchronous copies and this operation. Nothing if there is none."""
    instructions = [(int(match[1], 16), match[2]) for match in INSTRUCTION.finditer(code)]
    ratios = []
    for at, target in ((int(match[1], 16), int(match[2], 16)) for match in JUMP.finditer(code)):
        if target > at:
            continue
        loop = [operation for address, operation in instructions if target <= address <= at]
        count = sum(operation.startswith(wanted) for operation in loop)
        if count and any(operation.startswith('LDGSTS') for operation in loop):
            ratios.append((len(loop), len(loop) / count))
    return min(ratios)[1] if ratios else None


def fault_of(match, architecture, code):
    """What is wrong with a product's kernel, or nothing."""
    grouped, gated, form, weight_type, rows, more_rows = match.groups()
    if form == 'Vector':
        if weight_type not in FLOATS:
            return 'only float weights are loaded to registers'
        wanted = (WANTED_GATED if gated else WANTED)[rows]
        found = most_loads_before_use(match[2] for match in INSTRUCTION.finditer(code))
        return '' if found >= wanted else f'{found} loads of weights before their first use, at least {wanted} are wanted'
    # Those of experts load their biases.
    if not grouped and CONSTANT_LOAD in code:
        return 'weights are loaded to registers'
    if 'LDGSTS' not in code:
        return 'there are no asynchronous copies'
    wanted = 'FFMA' if form == 'FloatTile' else 'IMMA'
    of_floats = MOST_OF_FLOATS_FOR_120 if architecture == 'sm_120' else MOST_OF_FLOATS
    most = of_floats[rows, more_rows] if wanted == 'FFMA' else MOST.get((form, rows, more_rows))
    if wanted == 'IMMA' and weight_type != Q4_0 or most is None:
        return ''
    found = instructions_an(wanted, code)
    if found is None:
        return f'there is no loop with an {wanted}'
    return '' if found <= most else f'{found:.2f} instructions for each {wanted}, at most {most} are wanted'


def main(cuobjdump, paths):
    seen, is_good = set(), True
    for path in paths:
        for architecture, name, code in kernels(cuobjdump, path):
            fault = ''
            if match := KERNEL.search(name):
                seen.add((architecture, match[3]))
                fault = fault_of(match, architecture, code)
            elif not OTHER_READERS.search(name):
                count = code.count(CONSTANT_LOAD)
                fault = f'{count} loads by the read-only path, which is for weights and lists' if count else ''
            if fault:
                print(f'FAIL {architecture} {name}: {fault}')
                is_good = False
    for architecture in {architecture for architecture, _ in seen}:
        forms = {form for of, form in seen if of == architecture}
        print(f'{architecture}: products by {", ".join(sorted(forms))}; there must be {", ".join(sorted(FORMS))}')
        is_good &= forms == FORMS
    return 0 if is_good and seen else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], sys.argv[2:]))
