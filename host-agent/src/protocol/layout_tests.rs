//! Every element belongs to one chunk, and is brought and got by those ranks that the collective says.

use super::*;

const WORLDS: [usize; 6] = [1, 2, 3, 4, 7, 8];
const CHUNK: usize = 10;

#[test]
fn chunks_cover_the_tensor_once_and_in_order() {
    for world in WORLDS {
        for part in [0, 1, 9, 10, 11, 35] {
            let whole = part * world;
            let cases = [
                (Collective::Allreduce, (whole, whole)),
                (Collective::Broadcast { root: 0 }, (whole, whole)),
                (Collective::Allgather, (part, whole)),
                (Collective::Allgather, (whole, whole)),
                (Collective::ReduceScatter, (whole, part)),
                (Collective::ReduceScatter, (whole, whole)),
            ];
            for (collective, sizes) in cases {
                for place in 0..world {
                    let root = collective.root().map(|root| root as usize);
                    let layout = Layout::new(collective, (place, root, world), sizes, CHUNK).expect("fits");
                    assert_eq!(layout.elements(), whole);
                    let mut next = 0;
                    for chunk in 0..layout.chunks() as u32 {
                        let range = layout.range(chunk);
                        assert_eq!(range.start, next, "{collective:?} {world} {part}");
                        assert!((1..=CHUNK).contains(&range.len()));
                        next = range.end;
                        for (got, size) in
                            [(layout.input(chunk, root), sizes.0), (layout.output(chunk, root), sizes.1)]
                        {
                            assert!(got.is_none_or(|got| got.len() == range.len() && got.end <= size));
                        }
                    }
                    assert_eq!(next, whole);
                }
            }
        }
    }
}

#[test]
fn every_chunk_is_brought_and_got_by_whom_it_must() {
    let world = 3;
    let count = |collective: Collective, sizes, which: fn(&Layout, u32, Option<usize>) -> bool| {
        let root = collective.root().map(|root| root as usize);
        let places = (0..world)
            .map(|place| Layout::new(collective, (place, root, world), sizes, CHUNK).expect("fits"));
        let layouts: Vec<_> = places.collect();
        (0..layouts[0].chunks() as u32)
            .map(|chunk| layouts.iter().filter(|layout| which(layout, chunk, root)).count())
            .collect::<Vec<_>>()
    };
    let brings = |layout: &Layout, chunk, root| layout.input(chunk, root).is_some();
    let gets = |layout: &Layout, chunk, root| layout.output(chunk, root).is_some();
    assert_eq!(count(Collective::Allreduce, (30, 30), brings), [3; 3]);
    assert_eq!(count(Collective::Allreduce, (30, 30), gets), [3; 3]);
    assert_eq!(count(Collective::Reduce { root: 1 }, (30, 30), gets), [1; 3]);
    assert_eq!(count(Collective::Broadcast { root: 2 }, (30, 30), brings), [1; 3]);
    assert_eq!(count(Collective::Broadcast { root: 2 }, (30, 30), gets), [2; 3]);
    assert_eq!(count(Collective::Allgather, (11, 33), brings), [1; 6]);
    assert_eq!(count(Collective::Allgather, (11, 33), gets), [3; 6]);
    assert_eq!(count(Collective::ReduceScatter, (33, 11), brings), [3; 6]);
    assert_eq!(count(Collective::ReduceScatter, (33, 11), gets), [1; 6]);
}

#[test]
fn buffers_that_do_not_go_together_are_refused() {
    let refused = |collective: Collective, place, sizes| {
        let root = collective.root().map(|root| root as usize);
        Layout::new(collective, (place, root, 3), sizes, CHUNK).is_err()
    };
    assert!(refused(Collective::Allreduce, 0, (3, 4)));
    assert!(refused(Collective::Reduce { root: 0 }, 0, (3, 4)));
    assert!(!refused(Collective::Reduce { root: 0 }, 1, (3, 0)));
    assert!(!refused(Collective::Broadcast { root: 0 }, 1, (0, 5)));
    assert!(refused(Collective::Allgather, 0, (3, 10)));
    assert!(refused(Collective::Allgather, 0, (2, 9)));
    assert!(refused(Collective::ReduceScatter, 0, (10, 3)));
    assert!(refused(Collective::ReduceScatter, 0, (9, 2)));
}
